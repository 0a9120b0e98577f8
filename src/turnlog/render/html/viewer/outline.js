// The outline: one line per turn, virtual as well, with a filter.

import { el, textElement, visible } from "./dom.js";
import { clock, plural } from "./format.js";

const ROW = 44;
const AROUND = 6;
const FARTHEST = 1024;

export class Outline {
  constructor(pane, store, viewer) {
    Object.assign(this, { pane, store, viewer });
    this.current = -1;
    this.turns = null;
    this.input = el("input", { class: "tl-input", type: "search", placeholder: "filter turns", "aria-label": "filter turns" });
    this.input.addEventListener("input", () => this.filter(this.input.value));
    this.list = el("div", { class: "tl-outline-list", role: "list", tabindex: "0", "aria-label": "turns" });
    this.track = el("div", { class: "tl-outline-track", role: "presentation" });
    this.list.append(this.track);
    this.list.addEventListener("scroll", () => this.render(), { passive: true });
    pane.replaceChildren(this.input, this.list);
    new ResizeObserver(() => this.render()).observe(this.list);
    this.update();
  }

  get count() {
    return this.turns ? this.turns.length : this.store.turnCount;
  }

  turn(place) {
    return this.turns ? this.turns[place] : place;
  }

  update() {
    this.track.style.height = `${this.count * ROW}px`;
    this.render();
  }

  async filter(text) {
    const wanted = text.trim().toLowerCase();
    this.turns = null;
    if (wanted) {
      const found = await this.store.turnsLabelled(wanted);
      if (this.input.value !== text) return;
      this.turns = found;
      this.viewer.say(plural(this.turns.length, "turn"));
    }
    this.list.scrollTop = 0;
    this.update();
  }

  render() {
    const height = this.list.clientHeight;
    const first = Math.max(0, Math.floor(this.list.scrollTop / ROW) - AROUND);
    const last = Math.min(this.count, Math.ceil((this.list.scrollTop + height) / ROW) + AROUND);
    const rows = [];
    for (let place = first; place < last; place++) rows.push(this.row(place));
    this.track.replaceChildren(...rows);
    this.load(first, last);
  }

  /** Load what is missing of the rows on screen, one request at a time. */
  async load(first, last) {
    const turns = this.turns ? this.turns.slice(first, last) : null;
    const [from, to] = turns ? [turns[0] ?? 0, (turns.at(-1) ?? -1) + 1] : [first, last];
    // Filtered turns may be far apart: what lies between them is not needed.
    if (this.loading || (turns && to - from > FARTHEST)) return;
    this.loading = true;
    const isLoaded = await this.store.loadOutline(from, to).catch(() => false);
    this.loading = false;
    if (isLoaded) this.render();
  }

  row(place) {
    const t = this.turn(place);
    const outline = this.store.outline;
    const label = outline.label[t];
    const marks = [
      outline.errors[t] ? el("span", { class: "tl-errors", text: plural(outline.errors[t], "error") }) : "",
      outline.edits[t] ? el("span", { text: plural(outline.edits[t], "edit") }) : "",
      outline.calls[t] ? el("span", { text: plural(outline.calls[t], "call") }) : "",
      outline.compactions[t] ? el("span", { class: "tl-compacted", text: "compacted" }) : "",
    ].filter(Boolean);
    const button = el(
      "button",
      { class: "tl-outline-turn", type: "button", "aria-current": t === this.current ? "true" : null, onclick: () => this.viewer.goToTurn(t) },
      el("span", { class: "tl-outline-n", text: outline.n[t] ?? t + 1 }),
      textElement("span", "tl-outline-label", label === undefined ? "…" : label || "(no prompt)"),
      el("span", { class: "tl-outline-marks" }, el("span", { text: clock(outline.time[t]) }), ...marks.slice(0, 3)),
      el("span", { class: "tl-fill", "aria-hidden": "true" }),
    );
    const fill = outline.window?.[t] ? Math.min(1, outline.context[t] / outline.window[t]) : 0;
    button.lastElementChild.style.width = `${Math.round(fill * 100)}%`;
    button.title = `${visible(label ?? "")}${fill ? ` (context ${Math.round(fill * 100)}% full)` : ""}`;
    const item = el("div", { class: "tl-outline-item", role: "listitem" }, button);
    item.style.top = `${place * ROW}px`;
    return item;
  }

  /** Mark the turn that the reader is at, and keep it in sight. */
  markCurrent(t) {
    if (t === this.current) return;
    this.current = t;
    const place = this.turns ? this.turns.indexOf(t) : t;
    const top = place * ROW;
    if (place >= 0 && !this.list.contains(document.activeElement) && (top < this.list.scrollTop || top + ROW > this.list.scrollTop + this.list.clientHeight)) this.list.scrollTop = top - this.list.clientHeight / 3;
    this.render();
  }
}
