// The live page: rows that follow the running sessions while the page is visible.

import { el, svg, textElement, visible } from "/viewer/dom.js";
import { announce } from "/static/app.js";

const SPAN = 30 * 60;
const LANE = { width: 240, height: 14 };
const BAR = { width: 80, height: 10 };
const CLASSES = {
  working: "state-working",
  "waiting for permission": "state-permission",
  "waiting for input": "state-input",
  idle: "state-idle",
};
const NOW_CLASSES = {
  working: "tl-lane-work",
  "waiting for permission": "live-permission",
  "waiting for input": "live-input",
};

const rowsBody = document.getElementById("live-rows");
const summary = document.getElementById("live-summary");
const region = document.getElementById("live-region");
const rows = new Map();
let clockOffset = 0;
let source = null;
let asking = new Set();

const serverNow = () => Date.now() / 1000 + clockOffset;
const money = (amount) => (amount > 0 && amount < 0.005 ? "<$0.01" : `$${amount.toFixed(2)}`);

const windowText = (tokens) => (tokens >= 1e6 ? `${tokens / 1e6}M` : `${tokens / 1e3}k`);

function age(seconds) {
  const whole = Math.max(0, Math.floor(seconds));
  if (whole < 60) return `${whole}s`;
  const minutes = Math.floor(whole / 60);
  return minutes < 60 ? `${minutes}m` : `${Math.floor(minutes / 60)}h${String(minutes % 60).padStart(2, "0")}`;
}

/** One row of the table, updated in place so that focus and selection stay. */
class LaneRow {
  constructor(isAgent) {
    this.isAgent = isAgent;
    this.state = el("span", {});
    this.source = el("span", { class: "state-source" });
    this.age = el("td", { class: "number" });
    this.title = isAgent ? el("span", { class: "lane-title" }) : el("a", { class: "lane-title" });
    this.about = el("span", { class: "lane-about" });
    this.lane = el("td", {});
    this.model = el("td", {});
    this.context = el("td", {});
    this.turns = el("td", { class: "number" });
    this.cost = el("td", { class: "number" });
    this.rate = el("td", { class: "number" });
    const cells = [this.age, el("td", {}, this.title, this.about), this.lane, this.model];
    cells.push(this.context, this.turns, this.cost, this.rate);
    this.element = el("tr", { class: isAgent ? "agent" : null }, el("td", {}, this.state, this.source), ...cells);
  }

  update(lane) {
    this.current = lane;
    this.element.dataset.id = lane.id;
    this.element.dataset.state = lane.state;
    this.state.className = `state ${CLASSES[lane.state] ?? ""}`;
    this.state.textContent = lane.state;
    this.source.textContent = visible(lane.detail ? `${lane.source} · ${lane.detail}` : lane.source);
    this.title.textContent = visible(lane.title || lane.id);
    if (lane.key) this.title.setAttribute("href", `/sessions/${encodeURIComponent(lane.key)}`);
    this.about.textContent = this.isAgent ? "" : visible(aboutText(lane));
    this.model.textContent = visible((lane.model ?? "").replace(/^claude-/, ""));
    this.context.replaceChildren(...contextBar(lane));
    this.turns.textContent = lane.turns_left ?? "";
    this.cost.textContent = `${money(lane.cost_usd)}${lane.is_cost_complete ? "" : "+"}`;
    this.rate.textContent = this.isAgent ? "" : money(lane.usd_per_hour);
    this.drawLane();
    this.tick();
  }

  /** Show the age of the state; everything else changes only with an event. */
  tick() {
    const shown = age(serverNow() - Date.parse(this.current.since) / 1000);
    if (this.age.textContent !== shown) this.age.textContent = shown;
  }

  drawLane() {
    const now = serverNow();
    const seconds = (stamp) => Date.parse(stamp) / 1000;
    const spans = this.current.activity.map(([start, end]) => [seconds(start), seconds(end), "tl-lane-work"]);
    const kind = NOW_CLASSES[this.current.state];
    if (kind) spans.push([seconds(this.current.since), now, kind]);
    const shown = spans.filter(([, end]) => end > now - SPAN).map((span) => laneMark(span, now));
    const label = `${this.current.state} for ${age(now - seconds(this.current.since))}`;
    const track = svg("rect", { class: "live-track", x: 0.5, y: 0.5, width: LANE.width - 1, height: LANE.height - 1 });
    const attributes = { class: "live-lane", role: "img", "aria-label": label, ...LANE };
    this.lane.replaceChildren(svg("svg", attributes, track, ...shown));
  }
}

function aboutText(session) {
  const parts = [session.project, `pid ${session.pid}`, session.version, session.mode];
  if (session.finished_agents) parts.push(`${session.finished_agents} sub-agents done`);
  return parts.filter(Boolean).join(" · ");
}

function laneMark([start, end, kind], now) {
  const place = (moment) => (Math.max(0, moment - (now - SPAN)) / SPAN) * LANE.width;
  const x = Math.min(place(start), LANE.width - 1);
  const width = Math.max(1, Math.min(place(end), LANE.width) - x);
  return svg("rect", { class: kind, x: x.toFixed(1), y: 1, width: width.toFixed(1), height: LANE.height - 2 });
}

function contextBar(lane) {
  if (!lane.fill) return [];
  const percent = `${Math.round(lane.fill * 100)}%`;
  const kind = lane.fill > 0.8 ? "live-fill is-full" : "live-fill";
  const bar = svg(
    "svg",
    { class: "live-context", role: "img", "aria-label": `${percent} of ${lane.window} tokens`, ...BAR },
    svg("rect", { class: "live-track", x: 0.5, y: 0.5, width: BAR.width - 1, height: BAR.height - 1 }),
    svg("rect", { class: kind, x: 1, y: 1, width: (Math.min(lane.fill, 1) * (BAR.width - 2)).toFixed(1), height: BAR.height - 2 }),
  );
  return [bar, textElement("span", "muted", `${percent} of ${windowText(lane.window)}`)];
}

function show(data) {
  clockOffset = data.now - Date.now() / 1000;
  const wanted = data.sessions.flatMap((session) => [
    [`${session.pid} ${session.id}`, session, false],
    ...session.agents.map((agent) => [`${session.pid} ${session.id} ${agent.id}`, agent, true]),
  ]);
  const names = new Set(wanted.map(([name]) => name));
  for (const [name, row] of rows) {
    if (names.has(name)) continue;
    row.element.remove();
    rows.delete(name);
  }
  wanted.forEach(([name, lane, isAgent], place) => {
    if (!rows.has(name)) rows.set(name, new LaneRow(isAgent));
    const row = rows.get(name);
    row.update(lane);
    // Moving an element takes its focus away: move only what is in the wrong place.
    if (rowsBody.children[place] !== row.element) rowsBody.insertBefore(row.element, rowsBody.children[place] ?? null);
  });
  summary.textContent = data.summary;
  region.hidden = !wanted.length;
  announceQuestions(data.sessions);
}

/** Tell screen readers, and the tab's title, about sessions that began to wait for permission. */
function announceQuestions(sessions) {
  const waiting = sessions.filter((session) => session.state === "waiting for permission");
  const fresh = waiting.filter((session) => !asking.has(session.id));
  asking = new Set(waiting.map((session) => session.id));
  document.title = waiting.length ? `(${waiting.length}) Live · turnlog` : "Live · turnlog";
  if (fresh.length) announce(fresh.map((session) => visible(`${session.title} is waiting for permission`)).join("; "));
}

function follow() {
  if (document.hidden) {
    source?.close();
    source = null;
  } else if (!source) {
    source = new EventSource("/api/live/events");
    source.onmessage = (event) => show(JSON.parse(event.data));
  }
}

setInterval(() => {
  if (!document.hidden) rows.forEach((row) => row.tick());
}, 1000);
// Lanes move on slowly: 30 minutes are 240 pixels.
setInterval(() => {
  if (!document.hidden) rows.forEach((row) => row.drawLane());
}, 10000);
document.addEventListener("visibilitychange", follow);
follow();
