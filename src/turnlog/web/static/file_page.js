// The page about one file: its content as of each call, with a slider over all of them.

import { textElement } from "/viewer/dom.js";
import { stateParts } from "/viewer/file_time.js";
import { webSource } from "/viewer/web_source.js";

const pane = document.querySelector("#file-time");
// Calls are listed from the newest; the slider goes from the oldest to the newest.
const calls = [...document.querySelectorAll("tr[data-key]")].reverse();
const path = new URLSearchParams(location.search).get("path");
const slider = pane?.querySelector("input");
let asked = null;

async function show() {
  const call = calls[Number(slider.value)];
  const request = (asked = Symbol("request"));
  for (const row of calls) row.classList.toggle("shown-call", row === call);
  const label = `${Number(slider.value) + 1} of ${calls.length} · ${call.dataset.label}`;
  slider.setAttribute("aria-valuetext", label);
  pane.querySelector("output").textContent = label;
  const target = pane.querySelector(".file-state");
  try {
    const source = webSource(`/api/sessions/${encodeURIComponent(call.dataset.key)}`);
    const found = await source.fileByPath(path, call.dataset.line);
    if (asked === request) target.replaceChildren(...stateParts(found));
  } catch (error) {
    if (asked === request) target.replaceChildren(textElement("p", "muted", error.message));
  }
}

if (slider && calls.length) {
  slider.max = String(calls.length - 1);
  slider.value = slider.max;
  slider.addEventListener("input", show);
  pane.hidden = false;
  show();
}
