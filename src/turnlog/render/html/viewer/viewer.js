// The viewer of a session: outline | transcript | inspector.
//
// `source` gives the data: head(leaf, since) and turns(first, last, leaf); optionally opening({ leaf,
// line, turn }) for both, rows(n, first, last, leaf, isWhole), outline(first, last, leaf),
// labelled(text, leaf), raw(line), context(line), lost(line), find(text, leaf), agent(id, first,
// last), lanes(leaf), findings(), related(), reading(), files(line) with file(file, line, version),
// commands(session, line), and onGrow(callback). A missing method hides its feature. `options`: { leaf, turn, line, query,
// onState(state) }; without them, the viewer keeps its state in the address of the page.

import { agentBox } from "./agent_box.js";
import { showLost, showRelated } from "./dialogs.js";
import { el, textElement, visible } from "./dom.js";
import { Find } from "./find.js";
import { bytes, count, dateTime, duration, money, plural, tokens } from "./format.js";
import { Inspector } from "./inspector.js";
import { handleKeys, showShortcuts } from "./keys.js";
import { Lanes } from "./lanes.js";
import { address, readState, writeState } from "./location_state.js";
import { Outline } from "./outline.js";
import { followReading, isAhead } from "./reading.js";
import { SessionStore } from "./session_store.js";
import { Transcript } from "./transcript.js";

const WIDE = 1180;
const NARROW = 760;
const CHECKED = 32e6;

/** Show a session inside an element; return the viewer, whose `ready` resolves when it is shown. */
export function mountViewer(element, source, options = {}) {
  const viewer = new Viewer(element, source, options);
  const given = Object.entries(options).filter(([, value]) => value !== null && value !== undefined);
  viewer.ready = viewer.open({ ...readState(), ...Object.fromEntries(given) }).catch((error) => viewer.fail(error));
  return viewer;
}

class Viewer {
  constructor(element, source, options) {
    Object.assign(this, { element, source, options });
    element.classList.add("tl-viewer");
    const width = element.clientWidth || window.innerWidth;
    element.classList.toggle("tl-no-outline", width < NARROW);
    element.classList.toggle("tl-no-inspector", width < WIDE);
    this.header = el("div", { class: "tl-head" });
    this.outlinePane = el("nav", { class: "tl-outline", "aria-label": "outline" });
    this.scroller = el("section", { class: "tl-transcript", tabindex: "0", role: "feed", "aria-label": "transcript" });
    this.markers = el("div", { class: "tl-markers", "aria-hidden": "true" });
    this.inspectorPane = el("aside", { class: "tl-inspector", "aria-label": "inspector" });
    this.lanesPane = el("section", { class: "tl-lanes tl-hidden", "aria-label": "timeline" });
    this.fresh = el("button", { class: "tl-button tl-fresh tl-hidden", type: "button", text: "new rows ↓", onclick: () => this.transcript.list.showEnd() });
    this.status = el("div", { class: "tl-sr", role: "status", "aria-live": "polite" });
    // A page has one main landmark: the page's own, or else the transcript.
    const centre = el(element.closest("main") ? "div" : "main", { class: "tl-centre" }, this.scroller, this.markers, this.fresh);
    element.replaceChildren(this.header, this.lanesPane, this.outlinePane, centre, this.inspectorPane, this.status);
    this.scroller.append(el("p", { class: "tl-wait", text: "loading …" }));
    this.keys = handleKeys(this);
    this.onAddress = () => this.followAddress();
    window.addEventListener("popstate", this.onAddress);
    window.addEventListener("hashchange", this.onAddress);
  }

  /** Show a branch of the session, at a line, a turn or the start. */
  async open(state) {
    this.opening = state;
    const store = await new SessionStore(this.source, state.leaf || null).open(state);
    // Back may have been pressed before this branch was read.
    if (this.opening !== state) return;
    this.transcript?.destroy();
    this.scroller.replaceChildren();
    this.store = store;
    this.agentBox = this.source.agent ? (id, states) => agentBox(id, states, this) : null;
    this.showLost = this.source.lost ? (line) => showLost(this, line) : null;
    this.transcript = new Transcript(this.scroller, store, this);
    this.outline = new Outline(this.outlinePane, store, this);
    this.inspector = new Inspector(this.inspectorPane, this);
    this.lanes = new Lanes(this.lanesPane, this);
    this.fillHeader();
    this.find = new Find(this);
    this.follow();
    if (!store.turnCount) this.scroller.append(el("p", { class: "tl-wait", text: "This session has no turns." }));
    else if (isAhead(store, state)) this.say("the line is not read yet");
    else if (state.line) await this.goToLine(Number(state.line));
    else if (state.turn) await this.transcript.goToTurn(Number(state.turn) - 1);
    if (store.turnCount) await store.page(this.transcript.currentTurn());
    if (state.query) this.find.search(state.query);
    this.inspector.show();
    this.loadFindings();
    followReading(this, state).catch((error) => this.fail(error));
    document.dispatchEvent(new CustomEvent("turnlog:shown"));
  }

  fail(error) {
    this.scroller.replaceChildren(textElement("p", "tl-wait tl-errors", `The session cannot be shown: ${error.message}`));
    this.error = error;
  }

  fillHeader() {
    const { session, branches } = this.store.head;
    const search = el("div", { class: "tl-find", role: "search" });
    this.findPane = search;
    const title = textElement("h1", "tl-name", session.title);
    title.title = visible(session.title);
    const toggle = (label, className, title) => {
      const button = el("button", { class: "tl-button", type: "button", text: label, title, "aria-pressed": String(!this.element.classList.contains(className)) });
      button.addEventListener("click", () => this.toggle(className));
      button.dataset.toggles = className;
      return button;
    };
    const buttons = el(
      "div",
      { class: "tl-buttons" },
      toggle("outline", "tl-no-outline", "o"),
      toggle("inspector", "tl-no-inspector", "i"),
      this.lanes.isUseful ? toggle("timeline", "tl-no-lanes", "t") : "",
      this.source.related ? el("button", { class: "tl-button", type: "button", text: "related", title: "sessions about the same", onclick: () => showRelated(this) }) : "",
      el("button", { class: "tl-button", type: "button", text: "?", title: "shortcuts", "aria-label": "shortcuts", onclick: () => showShortcuts(this) }),
    );
    if (this.lanes.isUseful) this.element.classList.add("tl-no-lanes");
    this.header.replaceChildren(el("div", { class: "tl-head-row" }, title, search, buttons), el("div", { class: "tl-head-row tl-head-facts" }, this.facts(session), this.jumpButtons(session), this.branchSelect(branches), this.findingsBadge()));
    for (const button of buttons.querySelectorAll("[data-toggles]")) button.setAttribute("aria-pressed", String(!this.element.classList.contains(button.dataset.toggles)));
  }

  facts(session) {
    const length = session.started && session.ended ? Date.parse(session.ended) - Date.parse(session.started) : null;
    const { agents, branches, masked } = this.store.head;
    // Lists and reports count all branches and sub-agents: a smaller figure here must say what it leaves out.
    const scope = [branches?.length > 1 ? "this branch" : "", agents?.length ? "without sub-agents" : ""].filter(Boolean).join(", ");
    const places = [session.project, session.branch, session.models.join(", ")];
    const shown = [
      dateTime(session.started).slice(0, 16),
      length ? duration(length) : "",
      `${plural(session.turns, "turn")}${branches?.length > 1 ? " (this branch)" : ""}`,
      plural(session.calls, "call"),
      session.tokens ? `${tokens(session.tokens)} tokens` : "",
      session.tokens ? `${money(session.cost_usd)}${session.is_understated ? "†" : ""}${scope ? ` (${scope})` : ""}` : "",
      session.size ? bytes(session.size) : "",
      masked ? plural(masked, "masked secret") : "",
    ];
    const drawn = (facts) => facts.filter(Boolean).map((fact) => textElement("span", "", fact));
    return el("span", { class: "tl-session-facts" }, el("span", { class: "tl-places" }, ...drawn(places)), ...drawn(shown));
  }

  branchSelect(branches) {
    if (branches.length < 2) return "";
    const select = el("select", { class: "tl-select", "aria-label": "branch", onchange: () => this.switchBranch(select.value) });
    for (const branch of branches) {
      const label = `${branch.is_active ? "● " : "○ "}line ${branch.line}: ${branch.label}`;
      const option = el("option", { value: branch.leaf ?? "" });
      option.textContent = visible(label).slice(0, 90);
      option.selected = this.store.leaf ? branch.leaf === this.store.leaf : branch.is_active;
      select.append(option);
    }
    return el("label", { class: "tl-branches" }, `${count(branches.length)} branches `, select);
  }

  /** Buttons for what the keys e and d do. */
  jumpButtons(session) {
    const button = (count, noun, column, isWanted) => (count ? el("button", { class: "tl-button", type: "button", text: plural(count, noun), title: `next ${noun}`, onclick: () => this.transcript.jump(1, column, isWanted) }) : "");
    return el("span", { class: "tl-buttons tl-jumps" }, button(session.errors, "error", "errors", (row) => row.is_error), button(session.edits, "edit", "edits", (row) => row.is_edit));
  }

  /** Load what `check` found, to mark the lines concerned; large sessions are checked on demand. */
  async loadFindings() {
    const { head } = this.store;
    if (!head.findings?.length && this.source.findings && head.session.size <= CHECKED) head.findings = await this.source.findings().catch(() => []);
    this.store.marks = new Map(head.findings?.filter((finding) => finding.line).map((finding) => [finding.line, finding]));
    if (!this.store.marks.size) return;
    this.header.querySelector(".tl-badge")?.remove();
    this.header.querySelector(".tl-head-facts").append(this.findingsBadge());
    this.transcript.refreshAll();
  }

  findingsBadge() {
    const findings = this.store.head.findings ?? [];
    if (!findings.length) return "";
    return el("button", { class: `tl-button tl-badge tl-${findings[0].severity}`, type: "button", text: plural(findings.length, "finding"), onclick: () => this.inspect("findings") });
  }

  async switchBranch(leaf) {
    const active = this.store.head.branches.find((branch) => branch.is_active);
    this.state = { leaf: active?.leaf === leaf ? null : leaf, line: null, turn: null, query: null };
    writeState(this.state, this.options, true);
    await this.open(this.state);
    this.say(`branch with ${plural(this.store.turnCount, "turn")}`);
  }

  toggle(className) {
    const isHidden = this.element.classList.toggle(className);
    const isNarrow = this.element.clientWidth < NARROW;
    // On a phone there is room for one pane at a time.
    if (!isHidden && isNarrow) for (const other of ["tl-no-outline", "tl-no-inspector"]) if (other !== className) this.element.classList.add(other);
    // A hidden inspector does not follow the selection.
    if (className === "tl-no-inspector" && !isHidden) this.inspector.show();
    if (className === "tl-no-lanes" && this.lanes.isUseful) this.lanes.toggle(!isHidden);
    for (const button of this.header.querySelectorAll("[data-toggles]")) button.setAttribute("aria-pressed", String(!this.element.classList.contains(button.dataset.toggles)));
  }

  /** Open the inspector on one of its tabs. */
  inspect(tab) {
    if (this.element.classList.contains("tl-no-inspector")) this.toggle("tl-no-inspector");
    this.inspector.show(tab);
  }

  say(text) {
    this.status.textContent = text;
  }

  windowChanged(t) {
    if (t !== this.currentTurn) this.outline?.markCurrent(t);
    this.currentTurn = t;
    this.find?.highlightSoon();
    if (this.transcript?.list.isAtEnd) this.fresh.classList.add("tl-hidden");
  }

  selectionChanged(t, index) {
    const row = this.store.pages.get(t)?.rows[index];
    this.state = { leaf: this.store.leaf, line: row?.line ?? null, turn: row?.line ? null : t + 1 };
    writeState(this.state, this.options);
    this.inspector?.show();
    this.outline?.markCurrent(t);
  }

  address(line) {
    return address({ leaf: this.store.leaf, line });
  }

  /** Go to a line, also if it is on another branch or hidden in a turn. */
  async goToLine(line) {
    let t = await this.store.turnOfLine(line);
    if (!(await this.transcript.hasLine(t, line)) && this.source.raw) {
      const place = await this.source.raw(line).catch(() => null);
      if (place?.turn) t = place.turn - 1;
      else if (place?.leaf && place.leaf !== this.store.leaf) return this.open({ leaf: place.leaf, line });
    }
    await this.transcript.goToLine(line, t);
    this.say(`line ${line}, turn ${t + 1}`);
  }

  async goToTurn(t) {
    if (this.element.clientWidth < NARROW && !this.element.classList.contains("tl-no-outline")) this.toggle("tl-no-outline");
    await this.transcript.goToTurn(t, true);
  }

  async followAddress() {
    const state = readState();
    if ((state.leaf || null) !== (this.opening.leaf || null)) await this.open(state);
    else if (state.line) await this.goToLine(Number(state.line));
    else if (state.turn) await this.transcript.goToTurn(Number(state.turn) - 1);
  }

  /** Append what a live session writes; growth during a request is not missed. */
  follow() {
    if (!this.source.onGrow || this.following) return;
    this.following = this.source.onGrow(async () => {
      this.hasGrown = true;
      if (this.growing) return;
      this.growing = true;
      try {
        while (this.hasGrown) {
          this.hasGrown = false;
          await this.grow();
        }
      } finally {
        this.growing = false;
      }
    }) ?? true;
  }

  /** Show what the session has grown by; the reader stays where they are, unless at the end. */
  async grow() {
    const wasAtEnd = this.transcript.list.isAtEnd;
    const before = this.store.turnCount;
    const { selection } = this.inspector;
    if (!(await this.store.grow())) return;
    this.transcript.grown(before, wasAtEnd);
    this.outline.update();
    this.fresh.classList.toggle("tl-hidden", wasAtEnd);
    this.refreshFigures();
    // What is selected in the last turn may have moved down, and have other figures.
    if (selection?.t === before - 1) await this.transcript.follow(selection);
    if (!selection || selection.t === before - 1) this.inspector.refresh();
  }

  /** Update the figures of the header and the timeline; the focus stays where it is. */
  refreshFigures() {
    const { session } = this.store.head;
    const { title } = document.activeElement;
    const [facts, jumps] = [".tl-session-facts", ".tl-jumps"].map((name) => this.header.querySelector(name));
    const hadFocus = jumps.contains(document.activeElement);
    const fresh = this.jumpButtons(session);
    facts.replaceWith(this.facts(session));
    jumps.replaceWith(fresh);
    if (hadFocus) [...fresh.children].find((button) => button.title === title)?.focus({ preventScroll: true });
    this.lanes.refresh();
  }

  destroy() {
    this.keys.remove();
    window.removeEventListener("popstate", this.onAddress);
    window.removeEventListener("hashchange", this.onAddress);
    if (typeof this.following === "function") this.following();
    this.transcript?.destroy();
    this.element.replaceChildren();
  }
}
