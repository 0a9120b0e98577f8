// Dialogs, among them what a compaction lost, and sessions about the same.

import { el, insertHtml, textElement } from "./dom.js";
import { count, dateTime, plural, tokens } from "./format.js";

/** Show a dialog, and remove it when it is closed. */
export function openDialog(viewer, title, content, className = "") {
  const dialog = el("dialog", { class: `tl-dialog ${className}`, "aria-label": title });
  const close = el("button", { class: "tl-button", type: "button", text: "close", onclick: () => dialog.close() });
  dialog.append(el("div", { class: "tl-dialog-head" }, el("h2", { text: title }), close), content);
  dialog.addEventListener("close", () => dialog.remove());
  dialog.addEventListener("click", (event) => event.target === dialog && dialog.close());
  viewer.element.append(dialog);
  dialog.showModal();
  return dialog;
}

/** Show the messages before a compaction and the summary after it, side by side. */
export async function showLost(viewer, line) {
  const columns = el("div", { class: "tl-lost" }, el("p", { text: "loading …" }));
  openDialog(viewer, "What was lost", columns, "tl-wide");
  try {
    columns.replaceChildren(...lostColumns(await viewer.source.lost(line)));
  } catch (error) {
    columns.replaceChildren(textElement("p", "tl-errors", error.message));
  }
}

/** List the sessions that are about the same; the first time, that takes a moment. */
export async function showRelated(viewer) {
  const list = el("div", { class: "tl-related", "aria-live": "polite" }, el("p", { text: "loading …" }));
  openDialog(viewer, "Related sessions", list);
  try {
    const found = await viewer.source.related();
    list.replaceChildren(...(found.length ? found.map(relatedSession) : [el("p", { text: "no session is about the same" })]));
  } catch (error) {
    list.replaceChildren(textElement("p", "tl-errors", error.message));
  }
}

function relatedSession(found) {
  const link = textElement("a", "tl-related-title", found.title);
  link.href = `/sessions/${encodeURIComponent(found.key)}${found.line ? `?line=${found.line}` : ""}`;
  const facts = textElement("span", "tl-quiet", [found.project, dateTime(found.time).slice(0, 10)].filter(Boolean).join(" · "));
  return el("section", {}, el("div", {}, link, " ", facts), textElement("p", "tl-quiet", found.text.replace(/\s+/g, " ").slice(0, 160)));
}

function lostColumns(lost) {
  const blocks = lost.before.reduce((sum, message) => sum + message.blocks.length, 0);
  const size = lost.before.reduce((sum, message) => sum + message.blocks.reduce((inner, block) => inner + block.size, 0), 0);
  const before = `${plural(lost.before.length, "message")} before, ${plural(blocks, "block")}, ${count(size)} characters${lost.pre_tokens ? `, ${tokens(lost.pre_tokens)} tokens` : ""}`;
  const summary = el("div", { class: "tl-prose tl-lost-text" });
  if (typeof lost.html === "string") insertHtml(summary, lost);
  else summary.append(textElement("div", "tl-text", lost.summary));
  const kept = lost.preserved ? `, ${plural(lost.preserved, "message")} kept as they were` : "";
  return [
    el("section", {}, el("h3", { text: before }), contextList(lost.before)),
    el("section", {}, el("h3", { text: `summary after, ${count(lost.summary.length)} characters${kept}` }), summary),
  ];
}

/** A list of messages as the model gets them, each block folded. */
export function contextList(messages) {
  const list = el("div", { class: "tl-context", tabindex: "0", role: "region", "aria-label": "messages" });
  // Blocks of a long context are added while the reader scrolls; all at once would block the page.
  const blocks = messages.flatMap((message) => message.blocks.map((block) => [message.role, block]));
  const add = () => {
    for (const [role, block] of blocks.splice(0, 100)) list.append(contextBlock(role, block));
  };
  list.addEventListener("scroll", () => list.scrollTop + list.clientHeight > list.scrollHeight - 400 && add());
  add();
  return list;
}

function contextBlock(role, block) {
  const label = block.name ? `${block.type} ${block.name}` : block.type;
  const summary = el("summary", {}, el("span", { class: `tl-role tl-role-${role === "user" ? "user" : "assistant"}`, text: role }), textElement("span", "tl-kind", label), el("span", { class: "tl-facts", text: count(block.size) }), textElement("span", "tl-title", block.text.slice(0, 140).replace(/\s+/g, " ")));
  const details = el("details", { class: "tl-context-block" }, summary);
  details.addEventListener("toggle", () => {
    if (!details.open || details.children.length > 1) return;
    details.append(textElement("pre", "tl-output", block.text));
    if (block.size > block.text.length) details.append(el("p", { class: "tl-quiet", text: `${count(block.size - block.text.length)} more characters` }));
  });
  return details;
}
