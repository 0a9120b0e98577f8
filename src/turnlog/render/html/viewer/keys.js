// Keyboard shortcuts. Letters work unless the reader types into a field.

import { openDialog } from "./dialogs.js";
import { copyText, el, isOnControl } from "./dom.js";
import { turnMarkdown } from "./markdown.js";

/** Keys, what they do, and how. */
export const SHORTCUTS = [
  ["j", "next turn", (viewer) => viewer.transcript.step(1, () => true)],
  ["k", "previous turn", (viewer) => viewer.transcript.step(-1, () => true)],
  ["n", "next prompt", (viewer) => viewer.transcript.step(1, isPrompt(viewer))],
  ["p", "previous prompt", (viewer) => viewer.transcript.step(-1, isPrompt(viewer))],
  ["J", "next row", (viewer) => viewer.transcript.stepRow(1)],
  ["K", "previous row", (viewer) => viewer.transcript.stepRow(-1)],
  ["e", "next error", (viewer) => viewer.transcript.jump(1, "errors", isFailed)],
  ["E", "previous error", (viewer) => viewer.transcript.jump(-1, "errors", isFailed)],
  ["d", "next edit", (viewer) => viewer.transcript.jump(1, "edits", (row) => row.is_edit)],
  ["D", "previous edit", (viewer) => viewer.transcript.jump(-1, "edits", (row) => row.is_edit)],
  ["c", "next compaction", (viewer) => viewer.transcript.jump(1, "compactions", (row) => row.type === "compaction")],
  ["Home", "first turn", (viewer) => viewer.transcript.goToTurn(0, true)],
  ["End", "end", (viewer) => viewer.transcript.list.showEnd()],
  ["Enter", "unfold the selected row", (viewer) => viewer.transcript.unfoldSelected()],
  ["f", "fold or unfold the turn", (viewer) => viewer.transcript.toggleFold()],
  ["/", "find in the session", (viewer) => viewer.find.focus()],
  ["r", "raw line", (viewer) => viewer.inspect("raw")],
  ["x", "context sent", (viewer) => viewer.inspect("context")],
  ["m", "copy the turn as Markdown", copyTurn],
  ["o", "outline", (viewer) => viewer.toggle("tl-no-outline")],
  ["i", "inspector", (viewer) => viewer.toggle("tl-no-inspector")],
  ["t", "timeline of sub-agents", (viewer) => viewer.lanes.isUseful && viewer.toggle("tl-no-lanes")],
  ["?", "shortcuts", (viewer) => showShortcuts(viewer)],
];

const ANSWERED = new Set(["task_notification", "meta", ""]);

function isPrompt(viewer) {
  return (t) => !ANSWERED.has(viewer.store.outline.kind?.[t] ?? "");
}

function isFailed(row) {
  return row.is_error;
}

async function copyTurn(viewer) {
  const t = viewer.transcript.selected?.t ?? viewer.transcript.currentTurn();
  await copyText(turnMarkdown(await viewer.store.wholePage(t)));
  viewer.say(`turn ${t + 1} copied as Markdown`);
}

/** Show the list of shortcuts. */
export function showShortcuts(viewer) {
  const rows = SHORTCUTS.map(([key, label]) => el("div", {}, el("dt", {}, el("kbd", { text: key })), el("dd", { text: label })));
  openDialog(viewer, "Shortcuts", el("dl", { class: "tl-shortcuts" }, ...rows));
}

/** Listen to keys until `remove` is called. */
export function handleKeys(viewer) {
  const actions = new Map(SHORTCUTS.map(([key, , action]) => [key, action]));
  const pressed = (event) => {
    if (!viewer.transcript || document.querySelector("dialog[open]")) return;
    if ((event.ctrlKey || event.metaKey) && !event.shiftKey && event.key === "f") return findKey(viewer, event);
    if (event.ctrlKey || event.metaKey || event.altKey || event.defaultPrevented) return;
    if (event.target.closest?.("input, textarea, select, [contenteditable]")) return;
    if (event.key === "Enter" && isOnControl(event)) return;
    const action = actions.get(event.key);
    if (!action) return;
    event.preventDefault();
    action(viewer);
  };
  document.addEventListener("keydown", pressed);
  return { remove: () => document.removeEventListener("keydown", pressed) };
}

/** Take Ctrl+F, because the browser finds only what is mounted; pressed again, it is the browser's. */
function findKey(viewer, event) {
  if (event.target === viewer.find.input) return;
  event.preventDefault();
  viewer.find.focus();
}
