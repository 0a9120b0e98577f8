// The inspector: the selected message, the context sent for it, the raw line, and findings.

import { contextList } from "./dialogs.js";
import { copyButton, el, svg, textElement, visible } from "./dom.js";
import { FileTime } from "./file_time.js";
import { bytes, count, dateTime, duration, money, percent, plural, tokens } from "./format.js";

export class Inspector {
  constructor(pane, viewer) {
    Object.assign(this, { pane, viewer });
    const source = viewer.source;
    this.tabs = [
      ["message", "Message", () => this.message()],
      source.context ? ["context", "Context", () => this.context()] : null,
      source.raw ? ["raw", "Raw", () => this.raw()] : null,
      source.files ? ["files", "Files", () => this.files()] : null,
      source.findings || viewer.store.head.findings?.length ? ["findings", "Check", () => this.findings()] : null,
    ].filter(Boolean);
    this.tab = "message";
    this.bar = el("div", { class: "tl-tabs", role: "tablist", "aria-label": "inspector" });
    this.body = el("div", { class: "tl-tab-body", role: "tabpanel", id: "tl-tab-body", tabindex: "0" });
    for (const [name, label] of this.tabs) this.bar.append(el("button", { class: "tl-tab", type: "button", role: "tab", id: `tl-tab-${name}`, "aria-controls": "tl-tab-body", "data-tab": name, text: label, onclick: () => this.show(name) }));
    this.bar.addEventListener("keydown", (event) => this.arrow(event));
    pane.replaceChildren(this.bar, this.body);
  }

  arrow(event) {
    const step = { ArrowRight: 1, ArrowLeft: -1 }[event.key];
    if (!step) return;
    const names = this.tabs.map(([name]) => name);
    this.show(names[(names.indexOf(this.tab) + step + names.length) % names.length]);
    this.bar.querySelector('[aria-selected="true"]').focus();
  }

  get selection() {
    const { selected } = this.viewer.transcript;
    const page = selected && this.viewer.store.pages.get(selected.t);
    const row = page?.rows[selected.index];
    return row ? { ...selected, row, message: row.message === undefined ? null : page.messages[row.message] } : null;
  }

  /** Show a tab for the selected row. */
  async show(tab = this.tab) {
    this.tab = this.tabs.some(([name]) => name === tab) ? tab : "message";
    for (const button of this.bar.children) {
      const isHere = button.dataset.tab === this.tab;
      button.setAttribute("aria-selected", String(isHere));
      button.tabIndex = isHere ? 0 : -1;
    }
    this.body.setAttribute("aria-labelledby", `tl-tab-${this.tab}`);
    if (this.viewer.element.classList.contains("tl-no-inspector")) return;
    const asked = (this.asked = Symbol("request"));
    try {
      const content = await this.tabs.find(([name]) => name === this.tab)[2]();
      if (this.asked === asked) this.body.replaceChildren(...content);
    } catch (error) {
      if (this.asked === asked) this.body.replaceChildren(textElement("p", "tl-quiet", error.message));
    }
  }

  /** Show the figures of what a live session has appended; other tabs have none. */
  refresh() {
    if (this.tab === "message") this.show();
  }

  message() {
    const selection = this.selection;
    if (!selection) return this.session();
    const { row, message, t } = selection;
    const parts = [heading(`${row.type}${row.name ? ` ${row.name}` : ""}`)];
    parts.push(facts([
      ["turn", this.viewer.store.outline.n[t]],
      ["line", row.line ?? ""],
      row.result_line ? ["result", `line ${row.result_line}`] : null,
      row.time ? ["time", dateTime(row.time)] : null,
      row.duration_ms !== undefined && row.duration_ms !== null ? ["duration", duration(row.duration_ms)] : null,
      row.size ? ["size", bytes(row.size)] : null,
      row.id ? ["call", row.id] : null,
      row.type === "end" ? ["tokens", count(row.tokens)] : null,
      row.type === "end" ? ["cost", money(row.cost_usd)] : null,
    ]));
    if (message?.model) parts.push(...messageParts(message));
    parts.push(...this.commands(row));
    return parts;
  }

  /** Facts of the whole session, shown while nothing is selected. */
  session() {
    const { session } = this.viewer.store.head;
    const { context, window: windows } = this.viewer.store.blocks ?? this.viewer.store.outline;
    const fills = context.map((value, t) => (windows?.[t] ? value / windows[t] : 0));
    const fullest = fills.reduce((best, fill, t) => (fill > fills[best] ? t : best), 0);
    const most = fills[fullest] ? `${tokens(context[fullest])} (${percent(fills[fullest])})` : "";
    return [
      heading("session"),
      facts([
        ["id", session.id],
        session.slug ? ["slug", session.slug] : null,
        ["client", session.client_version ?? "unknown"],
        ["lines", count(session.lines)],
        ["errors", count(session.errors)],
        ["edits", count(session.edits)],
        ["cost", `${money(session.cost_usd)}${session.is_understated ? "†" : ""}`],
        most ? ["fullest context", most] : null,
      ]),
      ...(session.is_understated ? [quiet("† too low: clients up to 2.1.56 recorded too little output")] : []),
      // A line needs two points.
      ...(most && fills.length > 1 ? [heading("context fill by turn"), fillChart(fills, most)] : []),
      ...this.commands(null),
    ];
  }

  commands(row) {
    const lines = this.viewer.source.commands?.(this.viewer.store.head.session, row?.line);
    if (!lines) return [];
    return [heading("commands"), ...lines.map((line) => el("div", { class: "tl-command" }, textElement("code", "", line), copyButton(line)))];
  }

  async context() {
    const row = this.selection?.row;
    if (!row?.line) return [quiet("Select a message to see the context that was sent for it.")];
    this.body.replaceChildren(quiet("loading …"));
    const context = await this.viewer.source.context(row.line);
    const blocks = context.messages.reduce((sum, message) => sum + message.blocks.length, 0);
    const size = context.messages.reduce((sum, message) => sum + message.blocks.reduce((inner, block) => inner + block.size, 0), 0);
    const sent = context.message ? `, ${count(context.message.context)} tokens recorded` : "";
    return [
      heading("context sent"),
      quiet(`${plural(context.messages.length, "message")} with ${plural(blocks, "block")}, ${count(size)} characters${sent}. System prompt, tools and reminders, which the client adds to each request, are not in the file.`),
      contextList(context.messages),
    ];
  }

  async raw() {
    const row = this.selection?.row;
    if (!row?.line) return [quiet("Select a row to see its line.")];
    const raw = await this.viewer.source.raw(row.line);
    const more = row.result_line ? [el("button", { class: "tl-button", type: "button", text: `line ${row.result_line} (result)`, onclick: async () => this.body.replaceChildren(...rawParts(await this.viewer.source.raw(row.result_line))) })] : [];
    return [...rawParts(raw), ...more];
  }

  /** The changed files as of the selected message, and one of them with a time slider. */
  async files() {
    const row = this.selection?.row;
    this.body.replaceChildren(quiet("loading …"));
    this.fileTime ??= new FileTime(this.viewer.source, (line) => this.viewer.goToLine(line), this.viewer.store.head.session.project);
    return this.fileTime.at(row?.result_line ?? row?.line ?? null);
  }

  async findings() {
    const { head } = this.viewer.store;
    if (!head.findings?.length && this.viewer.source.findings) head.findings = await this.viewer.source.findings();
    if (!head.findings?.length) return [quiet("No findings."), el("div", { class: "tl-command" }, textElement("code", "", `turnlog check ${head.session.id}`), copyButton(`turnlog check ${head.session.id}`))];
    return head.findings.map((finding) => this.finding(finding));
  }

  finding(finding) {
    const box = el("div", { class: `tl-finding tl-${finding.severity}` }, el("div", {}, el("strong", { text: finding.severity }), ` ${visible(finding.kind)}`, finding.count > 1 ? ` (${count(finding.count)})` : ""), textElement("p", "", finding.message));
    if (finding.line) box.append(el("button", { class: "tl-button", type: "button", text: `line ${finding.line}`, onclick: () => this.viewer.goToLine(finding.line) }));
    if (finding.fix) box.append(el("div", { class: "tl-command" }, textElement("code", "", finding.fix), copyButton(finding.fix)));
    return box;
  }
}

/** The context fill at the end of each turn, as a line. */
function fillChart(fills, most) {
  const top = fills.reduce((one, other) => Math.max(one, other), 1);
  const step = Math.max(1, Math.ceil(fills.length / 300));
  const points = [];
  for (let t = 0; t < fills.length; t += step) points.push(`${((t / (fills.length - 1)) * 300).toFixed(1)},${(70 - (fills[t] / top) * 56).toFixed(1)}`);
  const scale = svg("text", { x: 0, y: 10 });
  scale.textContent = top > 1 ? percent(top) : "100% of the window";
  return svg("svg", { viewBox: "0 0 300 72", class: "tl-fill-chart", role: "img", "aria-label": `context fill by turn, at most ${most}` }, scale, svg("line", { x1: 0, x2: 300, y1: 14, y2: 14 }), svg("polyline", { points: points.join(" "), fill: "none" }));
}

function messageParts(message) {
  const fill = message.window ? message.context / message.window : 0;
  const bar = el("div", { class: "tl-bar", role: "img", "aria-label": `context ${percent(fill)} full` }, el("div", { class: "tl-bar-fill" }));
  bar.firstElementChild.style.width = `${Math.min(100, fill * 100)}%`;
  return [
    heading("message"),
    facts([
      ["model", message.model],
      ["context", `${tokens(message.context)} of ${tokens(message.window)} (${percent(fill)})`],
      ["input", count(message.input)],
      ["cache read", count(message.cache_read)],
      ["cache write", count(message.cache_write)],
      ["output", count(message.output)],
      ["cost", money(message.cost_usd)],
      message.stop_reason ? ["stopped", message.stop_reason] : null,
      message.started ? ["time", dateTime(message.started)] : null,
    ]),
    bar,
  ];
}

function rawParts(raw) {
  return [
    heading(`line ${raw.line}`),
    quiet(`${raw.kind} · ${bytes(raw.size)} at byte ${count(raw.offset)}${raw.is_whole ? "" : " · start only"} · secrets masked`),
    el("div", { class: "tl-block" }, copyButton(raw.text), textElement("pre", "tl-output tl-raw", raw.text)),
  ];
}

function facts(pairs) {
  return el("dl", { class: "tl-dl" }, ...pairs.filter(Boolean).map(([name, value]) => el("div", {}, el("dt", { text: name }), textElement("dd", "", value))));
}

function heading(text) {
  return textElement("h2", "tl-heading", text);
}

function quiet(text) {
  return textElement("p", "tl-quiet", text);
}
