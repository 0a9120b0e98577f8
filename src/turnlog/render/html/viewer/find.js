// Find in the session: over all of it, not only what is mounted, with marks beside the scroll bar.

import { el, visible } from "./dom.js";
import { count, plural } from "./format.js";
import { readState, writeState } from "./location_state.js";

const MOST_MARKS = 300;
const MOST_RANGES = 500;
const MOST_LOCAL = 1_000;

export class Find {
  constructor(viewer) {
    this.viewer = viewer;
    this.matches = [];
    this.at = -1;
    this.input = el("input", { class: "tl-input", type: "search", placeholder: "find in session", "aria-label": "find in session", "aria-keyshortcuts": "/" });
    this.result = el("span", { class: "tl-find-count", role: "status" });
    const step = (text, label, direction) => el("button", { class: "tl-button", type: "button", text, "aria-label": label, onclick: () => this.step(direction) });
    viewer.findPane.replaceChildren(this.input, this.result, step("↑", "previous match", -1), step("↓", "next match", 1));
    this.input.addEventListener("keydown", (event) => this.typed(event));
    this.input.addEventListener("search", () => !this.input.value && this.clear());
  }

  focus() {
    this.input.focus();
    this.input.select();
  }

  typed(event) {
    if (event.key === "Escape") {
      this.clear();
      this.viewer.scroller.focus();
    } else if (event.key === "Enter") {
      event.preventDefault();
      if (this.input.value === this.text && this.matches.length) this.step(event.shiftKey ? -1 : 1);
      else this.search(this.input.value);
    }
  }

  clear() {
    this.input.value = "";
    this.text = "";
    this.matches = [];
    this.result.textContent = "";
    this.viewer.markers.replaceChildren();
    this.highlight();
    this.remember();
  }

  /** Keep the text in the address. */
  remember() {
    writeState({ ...readState(), query: this.text || null }, this.viewer.options);
  }

  /** Search a text and go to the first match at or after the reader's position. */
  async search(text) {
    this.input.value = text;
    this.text = text;
    this.at = -1;
    if (!text.trim()) return this.clear();
    this.result.textContent = "…";
    this.remember();
    try {
      const found = this.viewer.source.find ? await this.viewer.source.find(text, this.viewer.store.leaf) : await this.searchHere(text);
      if (this.text !== text) return;
      this.matches = found.matches;
      this.isComplete = found.is_complete !== false;
    } catch (error) {
      this.result.textContent = error.message;
      return;
    }
    this.mark();
    const here = this.viewer.transcript.currentTurn() + 1;
    const selected = this.matches.findIndex((match) => match.line && match.line === this.viewer.state?.line);
    const next = selected < 0 ? this.matches.findIndex((match) => match.turn >= here) : selected;
    this.at = (next < 0 ? 0 : next) - 1;
    if (this.matches.length) await this.step(1);
    else this.tell();
  }

  /** Search turn by turn, in a file that has no server. */
  async searchHere(text) {
    const { store, source } = this.viewer;
    const wanted = text.toLowerCase();
    const matches = [];
    for (let first = 1; first <= store.turnCount && matches.length < MOST_LOCAL; first += 50) {
      const pages = await source.turns(first, Math.min(first + 49, store.turnCount), store.leaf);
      for (const page of pages)
        page.rows.forEach((row, index) => {
          const field = ["text", "name", "title", "input", "result", "body"].find((name) => textOf(row[name]).toLowerCase().includes(wanted));
          if (field) matches.push({ turn: page.n, row: index, line: row.line, field });
        });
      if (this.text !== text) break;
    }
    return { matches, is_complete: matches.length < MOST_LOCAL };
  }

  async step(direction) {
    if (!this.matches.length) return;
    this.at = (this.at + direction + this.matches.length) % this.matches.length;
    const match = this.matches[this.at];
    this.tell();
    await this.viewer.transcript.goToRow(match.turn - 1, match.row, match.field !== "title" && match.field !== "name");
    this.highlight();
    for (const mark of this.viewer.markers.children) mark.classList.toggle("tl-marker-here", Number(mark.dataset.turn) === match.turn);
  }

  tell() {
    const total = `${count(this.matches.length)}${this.isComplete ? "" : "+"}`;
    this.result.textContent = this.matches.length ? `${count(this.at + 1)} of ${total}` : "no match";
    this.result.title = visible(this.matches[this.at]?.snippet ?? "");
    if (!this.matches.length) this.viewer.say("no match");
    else this.viewer.say(`match ${this.at + 1} of ${plural(this.matches.length, "row")}`);
  }

  /** Put marks beside the scroll bar where the matches are. */
  mark() {
    const { list } = this.viewer.transcript;
    const { store, markers } = this.viewer;
    const places = new Map();
    for (const match of this.matches) {
      const offset = list.heights.before(store.item(match.turn - 1, match.row)) / Math.max(1, list.heights.total);
      places.set(Math.round(offset * MOST_MARKS), match);
    }
    markers.replaceChildren(
      ...[...places].map(([place, match]) => {
        const mark = el("span", { class: "tl-marker", "data-turn": match.turn });
        mark.style.top = `${(place / MOST_MARKS) * 100}%`;
        return mark;
      }),
    );
  }

  highlightSoon() {
    if (!this.text || this.isWaiting) return;
    this.isWaiting = true;
    requestAnimationFrame(() => {
      this.isWaiting = false;
      this.highlight();
    });
  }

  /** Colour the matches on screen, without changing the document. */
  highlight() {
    if (!globalThis.Highlight || !CSS.highlights) return;
    const ranges = this.text ? [...matchRanges(this.viewer.transcript.list.pane, this.text.toLowerCase())] : [];
    CSS.highlights.set("tl-find", new Highlight(...ranges));
  }
}

function* matchRanges(root, wanted) {
  const walker = document.createTreeWalker(root, NodeFilter.SHOW_TEXT);
  let found = 0;
  while (walker.nextNode() && found < MOST_RANGES) {
    const text = walker.currentNode.data.toLowerCase();
    for (let at = text.indexOf(wanted); at >= 0 && found < MOST_RANGES; at = text.indexOf(wanted, at + wanted.length)) {
      const range = new Range();
      if (at + wanted.length > walker.currentNode.length) break;
      range.setStart(walker.currentNode, at);
      range.setEnd(walker.currentNode, at + wanted.length);
      found += 1;
      yield range;
    }
  }
}

function textOf(value) {
  if (typeof value === "string") return value;
  return value === null || value === undefined ? "" : Array.isArray(value) ? value.join("\n") : JSON.stringify(value);
}
