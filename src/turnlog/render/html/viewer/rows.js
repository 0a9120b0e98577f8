// Rows of a turn as elements. Everything but prose goes through textContent.

import { setOutput } from "./ansi.js";
import { copyButton, el, insertHtml, textElement, visible } from "./dom.js";
import { bytes, dateTime, duration, money, plural, tokens } from "./format.js";

const CLAMP = 50_000;
const LONG_PROMPT = 1_600;
const OPEN_DIFF = 40;
const BOXES = { completed: "☑", in_progress: "◐" };

/** Create the element of a row; `context` gives { t, page, state, source, onToggle, wholeRow }. */
export function rowElement(row, index, context) {
  const build = BUILDERS[row.type] ?? noteRow;
  const element = el("div", { class: `tl-row tl-${row.type}`, "data-row": index, tabindex: "-1" });
  if (row.line) {
    element.dataset.line = row.line;
    element.append(gutter(row, context));
  }
  if (row.is_error) element.classList.add("tl-failed");
  element.append(build(row, index, context));
  return element;
}

function gutter(row, context) {
  return el("a", { class: "tl-line", href: context.address?.(row.line) ?? `#line=${row.line}`, title: `line ${row.line}`, tabindex: "-1", text: row.line, "aria-label": `line ${row.line}` });
}

function promptRow(row, index, context) {
  const isLong = row.text.length > LONG_PROMPT || row.text.split("\n").length > 24;
  const text = clamped("div", "tl-text", row, "text", index, context);
  const body = el("div", { class: "tl-body" }, text, pictures(row.images));
  if (isLong) body.append(fold(text, context, `prompt:${index}`));
  if (row.marks.length) body.prepend(el("div", { class: "tl-marks" }, ...row.marks.map((mark) => el("span", { class: "tl-mark", text: visible(mark) }))));
  return body;
}

/** Fold a long text to a few lines, with a button to unfold it. */
function fold(text, context, key) {
  const isOpen = context.state.get(key) ?? false;
  text.classList.toggle("tl-folded", !isOpen);
  const button = el("button", { class: "tl-button tl-more", type: "button", "aria-expanded": String(isOpen), text: isOpen ? "show less" : "show more" });
  button.addEventListener("click", () => {
    const opened = text.classList.contains("tl-folded");
    context.state.set(key, opened);
    text.classList.toggle("tl-folded", !opened);
    button.textContent = opened ? "show less" : "show more";
    button.setAttribute("aria-expanded", String(opened));
  });
  return button;
}

function answerRow(row, index, context) {
  const body = el("div", { class: "tl-body" });
  if (typeof row.html === "string" && !row.cut) {
    const prose = el("div", { class: "tl-prose" });
    insertHtml(prose, row);
    for (const table of prose.querySelectorAll("table")) {
      const frame = el("div", { class: "tl-table", tabindex: "0", role: "region", "aria-label": "table" });
      table.replaceWith(frame);
      frame.append(table);
    }
    for (const code of prose.querySelectorAll("pre")) code.tabIndex = 0;
    body.append(prose);
  } else body.append(clamped("div", "tl-text", row, "text", index, context));
  return body;
}

function thinkingRow(row, index, context) {
  const preview = row.text.slice(0, 160).replace(/\s+/g, " ");
  return unfolding(index, context, false, "tl-thought", [el("span", { class: "tl-kind", text: "thinking" }), textElement("span", "tl-title", preview)], () =>
    clamped("div", "tl-text", row, "text", index, context),
  );
}

/** A line with a button that unfolds a body, which is built when it is first shown. */
function unfolding(index, context, isOpenAtFirst, className, head, build) {
  const body = el("div", { class: `tl-body ${className}` });
  const key = `open:${index}`;
  const button = el("button", { class: "tl-unfold", type: "button" }, ...head);
  const show = (isOpen) => {
    button.setAttribute("aria-expanded", String(isOpen));
    body.classList.toggle("tl-open", isOpen);
    body.lastElementChild !== button && body.lastElementChild.remove();
    if (isOpen) body.append(build());
  };
  button.addEventListener("click", () => {
    const isOpen = button.getAttribute("aria-expanded") !== "true";
    context.state.set(key, isOpen);
    show(isOpen);
  });
  body.append(button);
  show(context.state.get(key) ?? isOpenAtFirst);
  return body;
}

function callRow(row, index, context) {
  const status = row.result_line === null ? "none" : row.is_rejected ? "rejected" : row.is_error ? "error" : "ok";
  const head = [
    el("span", { class: `tl-dot tl-dot-${status}`, role: "img", "aria-label": { ok: "succeeded", error: "failed", rejected: "rejected", none: "no result" }[status] }),
    textElement("span", "tl-tool", row.name),
    textElement("span", "tl-title", row.title.split("\n", 1)[0]),
    textElement("span", "tl-outcome", row.outcome),
    el("span", { class: "tl-facts", text: [row.duration_ms === null ? "" : duration(row.duration_ms), row.size > 999 ? bytes(row.size) : ""].filter(Boolean).join(" · ") }),
  ];
  const isOpen = Boolean(row.todos || row.html || row.images?.length) || (row.style === "diff" && row.body.length <= OPEN_DIFF);
  const body = unfolding(index, context, isOpen, "tl-call-body", head, () => callDetails(row, index, context));
  const isStopped = /^(denied|interrupted)/.test(row.outcome);
  if (row.is_error && row.result && !isStopped) body.append(failure(row));
  if (row.agent && context.agent) body.append(context.agent(row.agent, index));
  return body;
}

function failure(row) {
  const element = el("div", { class: "tl-failure" });
  setOutput(element, firstLines(row.result, 3));
  return element;
}

function firstLines(text, lines) {
  return text.replace(/<\/?tool_use_error>/g, "").trim().split("\n", lines).join("\n").slice(0, 400);
}

function callDetails(row, index, context) {
  const details = el("div", { class: "tl-details" });
  if (row.todos) details.append(el("ul", { class: "tl-todos" }, ...row.todos.map((todo) => textElement("li", `tl-todo-${todo.status}`, `${BOXES[todo.status] ?? "☐"} ${todo.content}`))));
  else if (typeof row.html === "string") {
    const plan = el("div", { class: "tl-prose tl-plan" });
    insertHtml(plan, row);
    details.append(plan);
  } else if (row.style === "diff" && row.body.length) details.append(diffBlock(row, index, context));
  if (!row.todos && row.style !== "diff" && typeof row.html !== "string") details.append(block("input", inputText(row), row, "input", index, context));
  details.append(pictures(row.images));
  if (row.result !== null && row.result !== undefined && !row.todos) {
    const isShown = row.style !== "diff" || row.is_error;
    if (isShown) details.append(block("result", row.result, row, "result", index, context));
  }
  return details;
}

/** The arguments of a call: a command as it is, anything else as names and values. */
export function inputText(row) {
  const input = row.input;
  if (row.name === "Bash" && typeof input?.command === "string") return input.command;
  if (input === null || typeof input !== "object" || Array.isArray(input)) return JSON.stringify(input, null, 2) ?? "";
  return Object.entries(input)
    .map(([name, value]) => `${name}: ${typeof value === "string" ? (value.includes("\n") ? `\n${value}` : value) : JSON.stringify(value, null, 2)}`)
    .join("\n");
}

function block(label, text, row, field, index, context) {
  const pre = el("pre", { class: "tl-output", tabindex: "0", "aria-label": label });
  fill(pre, text, row, field, index, context);
  return el("div", { class: "tl-block" }, el("div", { class: "tl-block-head" }, el("span", { text: label }), copyButton(() => text)), pre);
}

/** Show at most 50 KB of a text, with a button for the rest. */
function fill(element, text, row, field, index, context) {
  const isCut = row.cut?.[field] !== undefined;
  const set = field === "result" ? setOutput : (target, shown) => (target.textContent = visible(shown));
  set(element, text.slice(0, CLAMP));
  if (text.length <= CLAMP && !isCut) return;
  const total = isCut ? row.cut[field] : text.length;
  const button = el("button", { class: "tl-button tl-more", type: "button", text: `show all (${bytes(total)})` });
  button.addEventListener("click", async () => {
    button.disabled = true;
    const whole = isCut ? await context.wholeRow(index) : row;
    set(element, field === "input" ? inputText(whole) : whole[field]);
    if (whole.cut?.[field]) element.append(el("p", { class: "tl-quiet", text: `cut: the file has ${bytes(whole.cut[field])}` }));
  });
  element.append("\n", button);
}

function clamped(tag, className, row, field, index, context) {
  const element = el(tag, { class: className });
  fill(element, row[field] ?? "", row, field, index, context);
  return element;
}

function diffBlock(row, index, context) {
  const pre = el("pre", { class: "tl-output tl-diff", tabindex: "0", "aria-label": "diff" });
  const draw = (lines) => {
    const shown = lines.slice(0, 2000);
    pre.replaceChildren(...shown.map((line) => textElement("span", DIFF_CLASSES[line[0]] ?? "", `${line}\n`)));
    if (lines.length > shown.length) pre.append(`… ${plural(lines.length - shown.length, "more line")}`);
  };
  draw(row.body);
  if (row.cut?.body) {
    const button = el("button", { class: "tl-button tl-more", type: "button", text: "show all" });
    button.addEventListener("click", async () => draw((await context.wholeRow(index)).body));
    pre.append(button);
  }
  return pre;
}

const DIFF_CLASSES = { "+": "tl-added", "-": "tl-removed", "@": "tl-hunk" };

function pictures(images) {
  if (!images?.length) return "";
  const shown = images.filter((url) => /^data:image\/(png|jpeg|gif|webp);base64,/.test(url));
  return el("div", { class: "tl-images" }, ...shown.map((url, i) => el("img", { src: url, alt: `image ${i + 1} of ${shown.length}`, loading: "lazy" })));
}

function noteRow(row, index, context) {
  if (row.text.length < 300) return el("div", { class: "tl-body" }, textElement("div", "tl-text", row.text));
  const [first] = row.text.split("\n", 1);
  return unfolding(index, context, false, "tl-thought", [textElement("span", "tl-title", first.slice(0, 160))], () => clamped("div", "tl-text", row, "text", index, context));
}

function compactionRow(row, index, context) {
  const body = el("div", { class: "tl-body" }, textElement("span", "tl-text", row.text));
  if (context.lost) body.append(el("button", { class: "tl-button", type: "button", text: "what was lost", onclick: () => context.lost(row.line) }));
  return body;
}

function endRow(row) {
  const worked = row.working_ms ?? row.elapsed_ms;
  const facts = [worked === null ? "" : duration(worked), row.tokens ? `${tokens(row.tokens)} tokens` : "", row.tokens ? money(row.cost_usd) : ""];
  return el("div", { class: "tl-body", text: facts.filter(Boolean).join(" · ") });
}

/** The headline of a turn. */
export function turnHead(n, outline, t, buttons) {
  const facts = [outline.calls[t] ? plural(outline.calls[t], "call") : "", outline.edits[t] ? plural(outline.edits[t], "edit") : ""];
  const failed = outline.errors[t] ? el("span", { class: "tl-errors", text: plural(outline.errors[t], "error") }) : "";
  return el(
    "header",
    { class: "tl-turn-head" },
    el("span", { class: "tl-turn-n", text: `${n}` }),
    el("time", { datetime: outline.time[t] ?? "", text: dateTime(outline.time[t]) }),
    el("span", { class: "tl-turn-facts" }, facts.filter(Boolean).join(" · "), failed),
    el("span", { class: "tl-turn-buttons" }, ...buttons),
  );
}

const BUILDERS = {
  prompt: promptRow,
  answer: answerRow,
  thinking: thinkingRow,
  call: callRow,
  compaction: compactionRow,
  end: endRow,
};
