// A turn as Markdown, to paste into an issue.

import { inputText } from "./rows.js";

const LONGEST = 4_000;

/** Return the rows of a turn as Markdown. */
export function turnMarkdown(page) {
  return `${page.rows.map((row) => (WRITERS[row.type] ?? note)(row)).filter(Boolean).join("\n\n")}\n`;
}

function call(row) {
  const outcome = [row.outcome, row.is_error ? "failed" : ""].filter(Boolean).join(", ");
  const head = `**${row.name}** ${code(row.title.split("\n", 1)[0])}${outcome ? ` (${outcome})` : ""}`;
  if (row.style === "diff" && row.body.length) return `${head}\n\n${fenced(row.body.join("\n"), "diff")}`;
  if (row.todos) return `${head}\n\n${row.todos.map((todo) => `- [${todo.status === "completed" ? "x" : " "}] ${todo.content}`).join("\n")}`;
  const input = row.title.includes("\n") ? `\n\n${fenced(inputText(row))}` : "";
  return `${head}${input}${row.result ? `\n\n${fenced(row.result.slice(0, LONGEST))}` : ""}`;
}

function note(row) {
  return row.text ? `> ${row.text.slice(0, LONGEST).replaceAll("\n", "\n> ")}` : "";
}

function code(text) {
  const ticks = "`".repeat(longestRun(text) + 1);
  return text ? `${ticks}${text.startsWith("`") ? " " : ""}${text}${text.endsWith("`") ? " " : ""}${ticks}` : "";
}

/** Fence a text with more backticks than it contains. */
function fenced(text, language = "") {
  const fence = "`".repeat(Math.max(3, longestRun(text) + 1));
  return `${fence}${language}\n${text.replace(/\n$/, "")}\n${fence}`;
}

function longestRun(text) {
  return Math.max(0, ...(text.match(/`+/g) ?? []).map((run) => run.length));
}

const WRITERS = {
  prompt: (row) => `## ${row.n}. Prompt\n\n${row.text}`,
  answer: (row) => row.text,
  thinking: () => "",
  end: () => "",
  call,
};
