// The transcript: turns in a virtual list, with one selected row.

import { el } from "./dom.js";
import { plural } from "./format.js";
import { rowElement, turnHead } from "./rows.js";
import { VirtualList } from "./virtual_list.js";

export class Transcript {
  constructor(scroller, store, viewer) {
    Object.assign(this, { scroller, store, viewer });
    this.states = new Map();
    this.selected = null;
    const items = {
      count: () => store.partCount,
      estimate: (item) => store.estimate(item),
      render: (item) => this.part(item),
      rows: (item) => store.rowsIn(item),
    };
    this.list = new VirtualList(scroller, items, { onWindow: (first, last) => this.windowChanged(first, last) });
    store.isShown = (t) => this.list.mounted.has(store.item(t));
    store.onChange((turns) => this.loaded(turns));
  }

  destroy() {
    this.list.destroy();
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
    const section = el("section", {
      class: `tl-turn ${part ? "" : "tl-turn-first"}`,
      role: "article",
      "aria-label": part ? `turn ${n}, continued` : `turn ${n}`,
      "aria-posinset": String(n),
      "aria-setsize": String(this.store.turnCount),
      "data-turn": String(n),
    });
    if (!part) section.append(turnHead(n, this.store.outline, t, this.foldButton(t)));
    const rows = this.store.rows(t, part);
    if (!rows) {
      section.classList.add("tl-loading");
      section.append(el("div", { class: "tl-placeholder", text: this.store.outline.label[t] ?? "loading …" }));
      section.style.minHeight = `${this.store.estimate(item)}px`;
    } else if (this.store.isFolded(t)) section.append(...this.foldedRows(t, rows));
    else section.append(...rows.map((row, i) => this.row(t, this.store.rowRange(t, part).first + i, row)));
    return section;
  }

  row(t, index, row) {
    const element = rowElement(row, index, this.rowContext(t));
    const isSelected = this.selected && this.selected.t === t && this.selected.index === index;
    if (isSelected) this.mark(element);
    return element;
  }

  rowContext(t) {
    return {
      t,
      page: this.store.pages.get(t),
      state: this.state(t),
      wholeRow: (index) => this.store.wholeRow(t, index),
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
    this.viewer.windowChanged?.(this.currentTurn(), first, last);
  }

  /** The turn at the top of the screen. */
  currentTurn() {
    return this.store.turnCount ? this.store.place(this.list.anchor.index).t : 0;
  }

  async goToTurn(t) {
    this.list.show(this.store.item(Math.min(Math.max(0, t), this.store.turnCount - 1)));
  }

  /** Show and select the row of a line. */
  async goToLine(line) {
    const t = this.store.turnOfLine(line);
    const page = await this.store.wholePage(t);
    const index = rowAt(page.rows, line);
    return this.goToRow(t, index);
  }

  async goToRow(t, index) {
    if (this.store.isFolded(t) && index > 0) this.setFolded(t, false);
    this.selected = { t, index };
    const item = this.store.item(t, index);
    if (!this.list.mounted.has(item)) this.list.show(item);
    else this.list.refresh(item);
    await this.store.page(t);
    this.list.show(item);
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
    this.list.pane.querySelector(".tl-selected")?.classList.remove("tl-selected");
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
