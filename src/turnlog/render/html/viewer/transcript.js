// The transcript: turns in a virtual list, with one selected row.

import { copyButton, el, visible } from "./dom.js";
import { plural } from "./format.js";
import { turnMarkdown } from "./markdown.js";
import { rowElement, turnHead } from "./rows.js";
import { VirtualList } from "./virtual_list.js";

export class Transcript {
  constructor(scroller, store, viewer) {
    Object.assign(this, { scroller, store, viewer });
    this.states = new Map();
    this.selected = null;
    const items = {
      estimates: () => store.estimates(),
      estimate: (item) => store.estimate(item),
      render: (item) => this.part(item),
      rows: (item) => store.rowsIn(item),
    };
    this.list = new VirtualList(scroller, items, { onWindow: (first, last) => this.windowChanged(first, last) });
    store.isShown = (t) => [...this.list.mounted.keys()].some((item) => store.place(item).t === t);
    store.onChange((turns) => this.loaded(turns));
    this.onClick = (event) => this.clicked(event);
    scroller.addEventListener("click", this.onClick);
  }

  destroy() {
    this.list.destroy();
    this.scroller.removeEventListener("click", this.onClick);
  }

  /** Select the row that was clicked; a line number is a link to it. */
  clicked(event) {
    const link = event.target.closest(".tl-line");
    if (link && !event.ctrlKey && !event.metaKey) event.preventDefault();
    const row = event.target.closest(".tl-turn > .tl-row");
    if (row && window.getSelection().isCollapsed) this.select(Number(row.parentElement.dataset.turn) - 1, Number(row.dataset.row));
  }

  loaded(turns) {
    for (const item of [...this.list.mounted.keys()]) if (turns.includes(this.store.place(item).t)) this.list.refresh(item);
  }

  /** What a reader has unfolded in a turn, kept while the turn is not mounted. */
  state(t) {
    if (!this.states.has(t)) this.states.set(t, new Map());
    return this.states.get(t);
  }

  part(item) {
    const { t, part } = this.store.place(item);
    const n = t + 1;
    const section = el("article", {
      class: `tl-turn ${part ? "" : "tl-turn-first"}`,
      "aria-label": part ? `turn ${n}, continued` : `turn ${n}`,
      "aria-posinset": String(n),
      "aria-setsize": String(this.store.turnCount),
      "data-turn": String(n),
    });
    // The heads of turns show figures of the outline, which arrives on its own.
    if (this.store.isMissing(t, t + 1)) this.store.loadOutline(t, t + 1).catch(() => false);
    if (!part) section.append(turnHead(this.store.outline.n[t] ?? n, this.store.outline, t, [this.foldButton(t), this.copyButton(t)]));
    const rows = this.store.rows(t, part);
    if (!rows) {
      section.classList.add("tl-loading");
      section.append(el("div", { class: "tl-placeholder", text: visible(this.store.error?.message ?? this.store.outline.label[t] ?? "loading …") }));
      section.style.minHeight = `${this.store.estimate(item)}px`;
    } else if (this.store.isFolded(t)) section.append(...this.foldedRows(t, rows));
    else section.append(...rows.map((row, i) => this.row(t, this.store.rowRange(t, part).first + i, row)));
    return section;
  }

  row(t, index, row) {
    const element = rowElement(row, index, this.rowContext(t));
    const finding = this.store.marks?.get(row.line) ?? this.store.marks?.get(row.result_line);
    if (finding) element.append(this.findingMark(finding));
    const isSelected = this.selected && this.selected.t === t && this.selected.index === index;
    if (isSelected) this.mark(element);
    return element;
  }

  /** A note below a row at whose line `check` found something. */
  findingMark(finding) {
    const mark = el("button", { class: `tl-button tl-found tl-${finding.severity}`, type: "button", onclick: () => this.viewer.inspect("findings") });
    mark.textContent = visible(`${finding.severity}: ${finding.message}`);
    return mark;
  }

  refreshAll() {
    for (const item of [...this.list.mounted.keys()]) this.list.refresh(item);
  }

  rowContext(t) {
    return {
      t,
      page: this.store.pages.get(t),
      state: this.state(t),
      wholeRow: (index) => this.store.wholeRow(t, index),
      address: (line) => this.viewer.address(line),
      lost: this.viewer.showLost ? (line) => this.viewer.showLost(line) : null,
      agent: this.viewer.agentBox ? (id) => this.viewer.agentBox(id, this.state(t)) : null,
    };
  }

  foldButton(t) {
    const count = this.store.rowCount(t);
    if (count < 12) return "";
    const isFolded = this.store.isFolded(t);
    return el("button", {
      class: "tl-button tl-fold",
      type: "button",
      "aria-expanded": String(!isFolded),
      text: isFolded ? `unfold ${plural(count, "row")}` : "fold",
      onclick: () => this.setFolded(t, !this.store.isFolded(t)),
    });
  }

  copyButton(t) {
    return copyButton(async () => turnMarkdown(await this.store.wholePage(t)), "copy");
  }

  /** A folded turn: its prompt, its last answer and its end. */
  foldedRows(t, rows) {
    const page = this.store.pages.get(t);
    const shown = [];
    page.rows.forEach((row, index) => row?.type === "prompt" && shown.push([index, row]));
    const ending = page.ending ?? page.rows.map((row, index) => ({ index, row })).filter(({ row }) => row);
    const answer = ending.filter(({ row }) => row.type === "answer").at(-1);
    const end = ending.filter(({ row }) => row.type === "end").at(-1);
    const elements = shown.map(([index, row]) => this.row(t, index, row));
    const count = page.total - shown.length - (answer ? 1 : 0) - (end ? 1 : 0);
    elements.push(el("button", { class: "tl-button tl-hidden-rows", type: "button", text: `${plural(count, "row")} folded`, onclick: () => this.setFolded(t, false) }));
    if (answer) elements.push(this.row(t, answer.index, answer.row));
    if (end) elements.push(this.row(t, end.index, end.row));
    return elements;
  }

  setFolded(t, isFolded) {
    this.store.folds.set(t, isFolded);
    this.list.reestimate(this.store.starts[t], this.store.starts[t + 1] - 1);
  }

  windowChanged(first, last) {
    if (this.list) this.viewer.windowChanged?.(this.currentTurn(), first, last);
  }

  /** The turn at the top of the screen. */
  currentTurn() {
    return this.store.turnCount ? this.store.place(this.list.anchor.index).t : 0;
  }

  /** Show a turn at the top, and optionally select its first row. */
  async goToTurn(t, isSelecting = false) {
    const turn = Math.min(Math.max(0, t), this.store.turnCount - 1);
    if (turn < 0) return;
    this.list.show(this.store.item(turn));
    if (!isSelecting) return;
    this.selected = { t: turn, index: 0 };
    const page = await this.store.page(turn);
    if (this.selected?.t !== turn || !page) return;
    const prompt = page.rows.findIndex((row) => row?.type === "prompt");
    this.list.show(this.store.item(turn));
    this.select(turn, Math.max(0, prompt));
  }

  /** Go to the next or the previous turn that a test accepts. */
  async step(direction, isWanted) {
    const from = this.selected && this.isNear(this.selected.t) ? this.selected.t : this.currentTurn() - (direction > 0 ? 1 : 0);
    for (let t = from + direction; t >= 0 && t < this.store.turnCount; t += direction) {
      if (this.store.isMissing(t, t + 1)) await this.store.loadOutline(t, t + 1);
      if (isWanted(t)) return this.goToTurn(t, true);
    }
    this.viewer.say(direction > 0 ? "no further turn" : "no earlier turn");
  }

  /** Whether a turn is on screen or next to it, so that steps start from it. */
  isNear(t) {
    return this.list.mounted.has(this.store.item(t)) || Math.abs(t - this.currentTurn()) <= 1;
  }

  async stepRow(direction) {
    let { t, index } = this.selected ?? { t: this.currentTurn(), index: -1 };
    const page = await this.store.wholePage(t);
    index += direction;
    if (index >= 0 && index < page.total) return this.goToRow(t, index);
    t += direction;
    if (t < 0 || t >= this.store.turnCount) return;
    const next = await this.store.wholePage(t);
    return this.goToRow(t, direction > 0 ? 0 : next.total - 1);
  }

  /** Go to the next or previous row that a test accepts; a column of the outline names the turns. */
  async jump(direction, column, isWanted) {
    const start = this.selected && this.isNear(this.selected.t) ? this.selected : { t: this.currentTurn(), index: -1 };
    for (let t = start.t; (t = await this.store.nextWith(column, t, direction)) >= 0; t += direction) {
      const { rows } = await this.store.wholePage(t);
      const found = rows.map((row, index) => (isWanted(row) ? index : -1)).filter((index) => index >= 0);
      const after = found.filter((index) => t !== start.t || (direction > 0 ? index > start.index : index < start.index));
      if (after.length) return this.goToRow(t, direction > 0 ? after[0] : after.at(-1));
    }
    this.viewer.say(`no ${direction > 0 ? "further" : "earlier"} ${column.replace(/s$/, "")}`);
  }

  unfoldSelected() {
    if (!this.selected) return;
    const { t, index } = this.selected;
    this.elementOf(t, index)?.querySelector(".tl-unfold, .tl-more")?.click();
  }

  toggleFold() {
    const t = this.selected && this.isNear(this.selected.t) ? this.selected.t : this.currentTurn();
    this.setFolded(t, !this.store.isFolded(t));
  }

  /** Show rows that a live session has appended. */
  grown(before, wasAtEnd) {
    for (let item = this.store.starts[Math.max(0, before - 1)]; item < this.store.partCount; item++) this.list.exact.delete(item);
    this.list.reset();
    if (wasAtEnd) this.list.showEnd();
  }

  /** Keep a row selected that other rows were inserted before, as at the end of a growing turn. */
  async follow({ t, index, row }) {
    const page = await this.store.wholePage(t);
    const isSame = (each) => each?.type === row.type && each.line === row.line && each.id === row.id;
    if (!page || isSame(page.rows[index]) || this.selected?.t !== t || this.selected.index !== index) return;
    this.selected.index = Math.max(0, page.rows.findIndex(isSame));
    this.loaded([t]);
  }

  /** Show and select the row of a line. */
  async goToLine(line, t) {
    const page = await this.store.wholePage(t);
    if (page) await this.goToRow(t, rowAt(page.rows, line));
  }

  /** Whether a row of a turn stands for a line. */
  async hasLine(t, line) {
    const page = await this.store.wholePage(t);
    return Boolean(page?.rows.some((row) => row.line === line || row.result_line === line));
  }

  async goToRow(t, index, isUnfolding = false) {
    if (isUnfolding) this.state(t).set(`open:${index}`, true).set(`prompt:${index}`, true);
    if (this.store.isFolded(t) && index > 0) this.setFolded(t, false);
    this.selected = { t, index };
    const item = this.store.item(t, index);
    if (!this.list.mounted.has(item)) this.list.show(item);
    else this.list.refresh(item);
    await this.store.wholePage(t);
    this.list.show(item);
    if (isUnfolding) this.list.refresh(item);
    const element = this.elementOf(t, index);
    if (!element) return;
    const top = element.getBoundingClientRect().top - this.scroller.getBoundingClientRect().top;
    this.list.scrollBy(top - this.scroller.clientHeight / 4);
    this.select(t, index);
  }

  elementOf(t, index) {
    return this.list.pane.querySelector(`[data-turn="${t + 1}"] > [data-row="${index}"]`);
  }

  select(t, index) {
    for (const old of this.list.pane.querySelectorAll(".tl-selected")) {
      old.classList.remove("tl-selected");
      old.removeAttribute("aria-current");
    }
    this.selected = { t, index };
    const element = this.elementOf(t, index);
    if (element) this.mark(element);
    this.viewer.selectionChanged?.(t, index);
  }

  mark(element) {
    element.classList.add("tl-selected");
    element.setAttribute("aria-current", "true");
  }
}

/** The row of a line: the one that starts there, else the last one before it. */
function rowAt(rows, line) {
  const exact = rows.findIndex((row) => row?.line === line || row?.result_line === line);
  if (exact >= 0) return exact;
  return Math.max(0, rows.findLastIndex((row) => row?.line && row.line <= line));
}
