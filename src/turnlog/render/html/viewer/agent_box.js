// A sub-agent below the call that started it: folded, its rows in pages.

import { el, textElement } from "./dom.js";
import { plural } from "./format.js";
import { rowElement } from "./rows.js";

export const AGENT_ROWS = 30;

/** Return the box of a sub-agent; `states` keeps what is unfolded while the turn is not mounted. */
export function agentBox(id, states, viewer) {
  const about = viewer.store.head.agents.find((agent) => agent.id === id);
  if (!about) return textElement("div", "tl-quiet tl-agent", `sub-agent ${id}: its file is not there`);
  const key = `agent:${id}`;
  const box = el("div", { class: "tl-agent" });
  const button = el("button", { class: "tl-unfold", type: "button", "aria-expanded": "false" }, el("span", { class: "tl-kind", text: "sub-agent" }), textElement("span", "tl-title", about.label));
  const body = el("div", { class: "tl-agent-rows" });
  const show = async (first) => {
    states.set(key, first);
    button.setAttribute("aria-expanded", "true");
    body.replaceChildren(el("p", { class: "tl-quiet", text: "loading …" }));
    try {
      const page = await load(id, first, viewer);
      const from = page.first ?? 0;
      const rows = page.rows.slice(first - from, first - from + AGENT_ROWS);
      const context = innerContext(id, states, page, viewer);
      body.replaceChildren(...rows.map((row, i) => rowElement({ ...row, line: null }, first + i, context)), pager(page, first, show));
    } catch (error) {
      body.replaceChildren(textElement("p", "tl-errors", error.message));
    }
  };
  button.addEventListener("click", () => {
    if (button.getAttribute("aria-expanded") !== "true") return show(0);
    button.setAttribute("aria-expanded", "false");
    states.delete(key);
    body.replaceChildren();
  });
  box.append(button, body);
  if (states.has(key)) show(states.get(key));
  return box;
}

async function load(id, first, viewer) {
  viewer.agents ??= new Map();
  const key = `${id}:${first}`;
  if (!viewer.agents.has(key)) viewer.agents.set(key, viewer.source.agent(id, first, first + AGENT_ROWS));
  try {
    return await viewer.agents.get(key);
  } catch (error) {
    viewer.agents.delete(key);
    throw error;
  }
}

/** Keys of states are prefixed, because rows of sub-agents are numbered like those of the turn. */
function innerContext(id, states, page, viewer) {
  const prefix = (key) => `${id}/${key}`;
  const state = { get: (key) => states.get(prefix(key)), set: (key, value) => states.set(prefix(key), value) };
  return { t: null, page, state, wholeRow: (index) => page.rows[index - (page.first ?? 0)], lost: null, agent: (inner) => agentBox(inner, states, viewer) };
}

function pager(page, first, show) {
  const total = page.total ?? page.rows.length;
  if (total <= AGENT_ROWS) return el("span");
  const last = Math.min(first + AGENT_ROWS, total);
  return el(
    "div",
    { class: "tl-pager" },
    el("button", { class: "tl-button", type: "button", text: "previous", disabled: first === 0, onclick: () => show(Math.max(0, first - AGENT_ROWS)) }),
    el("span", { text: `${first + 1}–${last} of ${plural(total, "row")}` }),
    el("button", { class: "tl-button", type: "button", text: "next", disabled: last >= total, onclick: () => show(first + AGENT_ROWS) }),
  );
}
