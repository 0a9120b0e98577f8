// Sub-agents as lanes of a timeline. Idle time is collapsed, or a night would hide the work.

import { el, svg, textElement, visible } from "./dom.js";
import { clock, dateTime, duration, money, plural, tokens } from "./format.js";

const IDLE = 120_000;
const BREAK = 18;
const WIDTH = 1000;

export class Lanes {
  constructor(pane, viewer) {
    Object.assign(this, { pane, viewer });
    pane.replaceChildren();
    this.isLoaded = false;
  }

  get isUseful() {
    return Boolean(this.viewer.store.head.agents?.length);
  }

  async toggle(isShown) {
    this.pane.classList.toggle("tl-hidden", !isShown);
    if (!isShown || this.isLoaded) return;
    this.isLoaded = true;
    this.pane.replaceChildren(el("p", { class: "tl-quiet", text: "loading …" }));
    await this.load();
  }

  /** Draw the lanes again, now or when they are shown: the session has grown. */
  async refresh() {
    if (!this.isLoaded) return;
    this.isLoaded = !this.pane.classList.contains("tl-hidden");
    if (this.isLoaded) await this.load();
  }

  async load() {
    try {
      this.draw(await this.lanes());
    } catch (error) {
      this.pane.replaceChildren(textElement("p", "tl-errors", error.message));
    }
  }

  async lanes() {
    if (this.viewer.source.lanes) return this.viewer.source.lanes(this.viewer.store.leaf);
    const { agents, session } = this.viewer.store.head;
    const span = (started, ended) => (started ? [[Date.parse(started), Date.parse(ended ?? started)]] : []);
    return [{ id: null, label: "session", spans: span(session.started, session.ended) }, ...agents.map((agent) => ({ ...agent, spans: span(agent.started, agent.ended) }))];
  }

  draw(lanes) {
    const scale = timeScale(lanes.flatMap((lane) => lane.spans));
    const rows = lanes.map((lane) => this.lane(lane, scale));
    this.pane.replaceChildren(el("div", { class: "tl-lane-list", role: "list", "aria-label": "lanes" }, ...rows), this.axis(scale));
  }

  lane(lane, scale) {
    const first = lane.spans[0]?.[0];
    const last = lane.spans.at(-1)?.[1];
    const facts = [lane.calls ? plural(lane.calls, "call") : "", lane.tokens ? `${tokens(lane.tokens)} tokens` : "", lane.tokens ? money(lane.cost_usd) : ""].filter(Boolean).join(" · ");
    const active = lane.spans.reduce((sum, [from, to]) => sum + to - from, 0);
    const drawing = svg("svg", { viewBox: `0 0 ${WIDTH} 16`, preserveAspectRatio: "none", class: "tl-lane-bars", role: "img", "aria-label": `${visible(lane.label)}: active for ${duration(active)} from ${dateTime(first)}` });
    for (const gap of scale.breaks) drawing.append(svg("rect", { x: gap.x, y: 0, width: BREAK, height: 16, class: "tl-lane-break" }));
    for (const [from, to] of lane.spans) drawing.append(svg("rect", { x: scale.x(from).toFixed(1), y: 3, width: Math.max(2, scale.x(to) - scale.x(from)).toFixed(1), height: 10, rx: 2, class: lane.id === null ? "tl-lane-main" : lane.errors ? "tl-lane-bar tl-lane-errors" : "tl-lane-bar" }));
    const label = lane.line ? el("button", { class: "tl-lane-label", type: "button", onclick: () => this.viewer.goToLine(lane.line) }) : el("span", { class: "tl-lane-label" });
    label.append(textElement("span", "", lane.label));
    label.title = last ? `${dateTime(first)} – ${dateTime(last)}` : "";
    return el("div", { class: "tl-lane", role: "listitem" }, label, drawing, el("span", { class: "tl-lane-facts", text: facts }));
  }

  axis(scale) {
    const texts = scale.pieces.map((piece) => {
      const label = el("span", { text: clock(piece.from) });
      label.style.left = `${(piece.x / WIDTH) * 100}%`;
      return label;
    });
    const idle = scale.breaks.reduce((sum, gap) => sum + gap.length, 0);
    const shown = texts.filter((_, i) => i % Math.ceil(texts.length / 10) === 0);
    return el("div", { class: "tl-lane-axis" }, el("span", { class: "tl-lane-label", text: idle ? `${duration(idle)} idle, collapsed` : "" }), el("div", { class: "tl-lane-ticks" }, ...shown));
  }
}

/** Map times to places: gaps between activities of any lane get the same small width. */
export function timeScale(spans, width = WIDTH) {
  const sorted = [...spans].sort((one, other) => one[0] - other[0]);
  const pieces = [];
  for (const [from, to] of sorted) {
    const last = pieces.at(-1);
    if (last && from - last.to <= IDLE) last.to = Math.max(last.to, to);
    else pieces.push({ from, to });
  }
  const breaks = [];
  const active = pieces.reduce((sum, piece) => sum + piece.to - piece.from, 0) || 1;
  const room = Math.max(width / 2, width - BREAK * Math.max(0, pieces.length - 1));
  const gap = pieces.length > 1 ? (width - room) / (pieces.length - 1) : 0;
  let x = 0;
  pieces.forEach((piece, i) => {
    if (i) {
      breaks.push({ x, length: piece.from - pieces[i - 1].to });
      x += gap;
    }
    piece.x = x;
    piece.scale = room / active;
    x += (piece.to - piece.from) * piece.scale;
  });
  const place = (time) => {
    const piece = pieces.findLast((each) => each.from <= time) ?? pieces[0];
    return piece ? piece.x + (Math.min(time, piece.to) - piece.from) * piece.scale : 0;
  };
  return { x: place, pieces, breaks };
}
