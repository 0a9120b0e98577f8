// The page of a session: the viewer, fed by the API of the web app.

import { textElement } from "./dom.js";
import { mountViewer } from "./viewer.js";
import { webSource } from "./web_source.js";

const element = document.getElementById("viewer");
const given = new URLSearchParams(location.search);
const key = element.dataset.key;
const options = { hasEvents: true, opening: element.dataset.opening };
const source = webSource(`/api/sessions/${encodeURIComponent(key)}`, options);
const number = (name) => Number(given.get(name)) || null;

const viewer = mountViewer(element, source, {
  leaf: given.get("leaf"),
  turn: number("turn"),
  line: number("line"),
});
// Tests and scripts wait for the first rows here.
globalThis.turnlogViewer = viewer;
viewer.ready?.catch((error) => {
  element.replaceChildren(textElement("p", "viewer-error error-text", error.message));
});
