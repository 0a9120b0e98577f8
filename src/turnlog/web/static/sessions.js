// The list of sessions: pages of rows on demand, filters in the URL, and results of a search.

import { el, isOnControl, visible } from "/viewer/dom.js";
import { VirtualList } from "/viewer/virtual_list.js";
import { announce, isTyping } from "/static/app.js";

const PAGE = 100;
const KEPT_PAGES = 40;
const TYPING_MS = 250;
const POLL_MS = 10_000;
const INDEXING_MS = 1000;
const NARROW = matchMedia("(max-width: 1000px)");

const form = document.getElementById("filters");
const scroller = document.getElementById("list");
const chosen = new Map(); // key → title, for the comparison

/** The filters that are set, as parameters of the URL. */
function parameters() {
  const found = new URLSearchParams();
  for (const [name, value] of new FormData(form)) if (String(value).trim()) found.set(name, String(value).trim());
  return found;
}

function fillForm() {
  const given = new URLSearchParams(location.search);
  for (const field of form.elements) {
    if (!field.name) continue;
    if (field.type === "checkbox") field.checked = given.get(field.name) === field.value;
    else field.value = given.get(field.name) ?? "";
  }
  const isFiltered = [...given.keys()].some((name) => !["q", "regex", "at"].includes(name));
  if (isFiltered) showFields(true);
}

async function getJson(path, query, signal) {
  const answer = await fetch(`${path}?${query}`, { credentials: "same-origin", signal });
  const value = await answer.json();
  if (!answer.ok) throw new Error(value.hint ? `${value.error} (try: ${value.hint})` : value.error);
  return value;
}

function span(className, text, title) {
  return el("span", { class: className, title: title ?? null, text: visible(String(text ?? "")) });
}

function stateOf(row) {
  if (row.is_live) return ["live", "state state-live"];
  if (row.health === "broken") return ["broken", "state state-broken"];
  return ["", "state"];
}

function addressOf(row, hit) {
  const owner = encodeURIComponent(hit?.agent ?? row.key);
  return `/sessions/${owner}${hit ? `?line=${hit.line}` : ""}`;
}

/** The title, and the tag as a link to all sessions with it. */
function nameElement(row) {
  const title = visible(row.title);
  const link = el("a", { class: "title", href: addressOf(row), title, text: title });
  const tag = row.tag ? el("a", { class: "tag", href: `/sessions?${new URLSearchParams({ tag: row.tag })}`, text: visible(row.tag) }) : null;
  return el("span", { class: "name" }, link, tag);
}

function rowElement(row, index, count) {
  const [state, stateClass] = stateOf(row);
  const box = el("input", { type: "checkbox", class: "choose", "aria-label": `Compare ${visible(row.title)}`, onchange: () => choose(row, box.checked) });
  box.checked = chosen.has(row.key);
  return el(
    "div",
    {
      class: row.key === current.key ? "session-row is-selected" : "session-row",
      role: "listitem",
      "aria-setsize": count,
      "aria-posinset": index + 1,
      "data-key": row.key,
    },
    box,
    nameElement(row),
    span("age", row.age, row.time),
    span("project", row.project, row.project),
    span("branch", row.branch, row.branch),
    span("model", row.models.join(", "), row.models.join(", ")),
    span("number turns", row.turns),
    span("number tokens", row.tokens),
    span("number cost", row.cost, row.cost_note || undefined),
    span(stateClass, state, row.finding ?? undefined),
  );
}

/** A snippet with its matches marked; marks count characters, not UTF-16 units. */
function snippetElement(hit) {
  const characters = Array.from(hit.text);
  const parts = [];
  let done = 0;
  for (const [start, end] of hit.marks) {
    parts.push(visible(characters.slice(done, start).join("")), el("mark", { text: visible(characters.slice(start, end).join("")) }));
    done = end;
  }
  parts.push(visible(characters.slice(done).join("")));
  return el("span", { class: "snippet" }, ...parts);
}

function resultElement(row, index, count) {
  const hits = row.hits.map((hit) => {
    const kind = `${hit.agent ? "sub-agent · " : ""}${hit.tool ?? hit.kind}`;
    return el("a", { class: "hit", href: addressOf(row, hit) }, span(hit.is_error ? "kind is-error" : "kind", kind), snippetElement(hit));
  });
  const item = rowElement(row, index, count);
  for (const name of ["role", "aria-setsize", "aria-posinset"]) item.removeAttribute(name);
  return el("div", { class: "result", role: "listitem", "aria-setsize": count, "aria-posinset": index + 1, "data-key": row.key }, item, ...hits);
}

/** Rows of the list, loaded page by page as they come into view. */
class SessionRows {
  constructor(query) {
    this.query = query;
    this.pages = new Map();
    this.loading = new Map();
    this.total = 0;
    this.generation = null;
  }

  count() {
    return this.total;
  }

  estimate() {
    return NARROW.matches ? 48 : 34;
  }

  rows() {
    return 1;
  }

  at(index) {
    return this.pages.get(Math.floor(index / PAGE))?.[index % PAGE];
  }

  /** Return where a session is, if its page is loaded; else -1. */
  placeOf(key) {
    for (const [page, rows] of this.pages) {
      const place = rows.findIndex((row) => row.key === key);
      if (place >= 0) return page * PAGE + place;
    }
    return -1;
  }

  render(index) {
    const row = this.at(index);
    if (row) return rowElement(row, index, this.total);
    this.load(Math.floor(index / PAGE));
    return el("div", { class: "session-row", role: "listitem" }, el("span"), el("span", { class: "name" }, span("title", "…")));
  }

  load(page) {
    if (!this.loading.has(page)) this.loading.set(page, this.fetch(page).finally(() => this.loading.delete(page)));
    return this.loading.get(page);
  }

  async fetch(page) {
    const query = new URLSearchParams(this.query);
    query.set("offset", page * PAGE);
    query.set("limit", PAGE);
    const answer = await getJson("/api/sessions", query);
    const isNew = this.generation !== answer.generation || this.total !== answer.total;
    if (isNew) this.pages.clear();
    this.generation = answer.generation;
    this.total = answer.total;
    this.isIndexing = answer.is_indexing;
    showNotice(answer.notice);
    this.pages.set(page, answer.rows);
    // The map keeps the order of insertion: the first page is the oldest.
    while (this.pages.size > KEPT_PAGES) this.pages.delete(this.pages.keys().next().value);
    if (this !== current.items) return;
    if (isNew) current.list?.reset();
    else for (let i = 0; i < answer.rows.length; i++) current.list?.refresh(page * PAGE + i);
    restoreSelection();
  }

  /** Read the rows on screen again. */
  refresh() {
    return this.fetch(Math.floor((current.list?.first ?? 0) / PAGE));
  }

  /** Load the list again if sessions have changed since. */
  async poll() {
    const query = new URLSearchParams(this.query);
    query.set("limit", 0);
    const answer = await getJson("/api/sessions", query);
    showNotice(answer.notice);
    if (answer.generation === this.generation && answer.total === this.total) return;
    await this.refresh();
    showCount();
  }
}

/** The results of a search, which are all in memory. */
class SearchResults {
  constructor(query) {
    this.query = query;
    this.found = [];
    this.limit = 30;
  }

  count() {
    return this.found.length + (this.hasMore ? 1 : 0);
  }

  estimate(index) {
    return 44 + 44 * (this.found[index]?.hits.length ?? 0);
  }

  rows(index) {
    return 1 + (this.found[index]?.hits.length ?? 0);
  }

  at(index) {
    return this.found[index];
  }

  placeOf(key) {
    return this.found.findIndex((row) => row.key === key);
  }

  render(index) {
    const row = this.found[index];
    if (row) return resultElement(row, index, this.found.length);
    const more = () => {
      this.limit = Math.min(300, this.limit * 2);
      this.refresh().then(showCount, showError);
    };
    return el("div", { class: "more-line", role: "listitem" }, el("button", { class: "button", type: "button", text: "More results", onclick: more }));
  }

  async load() {
    const query = new URLSearchParams(this.query);
    query.set("limit", this.limit);
    const answer = await getJson("/api/search", query);
    this.found = answer.rows;
    this.hasMore = answer.has_more && this.limit < 300;
    this.isIndexing = answer.is_indexing;
    showNotice(answer.notice);
  }

  /** Search again. */
  async refresh() {
    await this.load();
    if (this !== current.items) return;
    current.list?.reset();
    restoreSelection();
  }

  async poll() {}
}

const current = { items: null, list: null, selected: -1, key: null };

function showCount() {
  const items = current.items;
  const hint = items.found?.length || items.query.has("regex") ? "" : ": try fewer words, prefix*, or a OR b";
  const text =
    items instanceof SearchResults
      ? `${items.found.length}${items.hasMore ? "+" : ""} ${items.found.length === 1 ? "session" : "sessions"} with matches${hint}`
      : `${items.total.toLocaleString("en")} ${items.total === 1 ? "session" : "sessions"}`;
  document.getElementById("count").textContent = items.isIndexing ? `${text}, indexing…` : text;
}

function showNotice(text) {
  const notice = document.getElementById("index-notice");
  notice.hidden = !text;
  notice.textContent = text ? visible(text) : "";
}

function showError(error) {
  document.getElementById("list-error").textContent = error ? visible(error.message) : "";
}

function itemsFor(query) {
  return query.get("q") ? new SearchResults(query) : new SessionRows(query);
}

/** Show what the filters select; `at` is the first row on screen. */
async function show(at = 0) {
  const items = itemsFor(parameters());
  current.items = items;
  current.selected = -1;
  current.key = null;
  try {
    await (items instanceof SearchResults ? items.load() : items.load(Math.floor(at / PAGE)));
    if (items !== current.items) return;
    showError(null);
  } catch (error) {
    if (items !== current.items) return;
    items.total = 0;
    showError(error);
  }
  current.list?.destroy();
  current.list = new VirtualList(scroller, items, { onWindow: keepPosition });
  current.list.pane.setAttribute("role", "list");
  if (at) current.list.show(Math.min(at, items.count() - 1));
  showCount();
  if (items.isIndexing) followIndexing(items);
}

/** Read the list again until all sessions are indexed; what is selected stays selected. */
function followIndexing(items) {
  setTimeout(async () => {
    if (items !== current.items) return;
    await items.refresh().catch(showError);
    if (items !== current.items) return;
    showCount();
    if (items.isIndexing) followIndexing(items);
  }, INDEXING_MS);
}

let keeping = 0;

/** Keep the position in the URL, so that going back shows the same rows. */
function keepPosition(first) {
  clearTimeout(keeping);
  keeping = setTimeout(() => {
    const query = parameters();
    if (first > 0 && current.list) query.set("at", current.list.anchor.index);
    replaceAddress(query);
  }, TYPING_MS);
}

function replaceAddress(query) {
  const text = query.toString();
  history.replaceState(null, "", text ? `/sessions?${text}` : "/sessions");
}

function apply() {
  replaceAddress(parameters());
  show();
}

let typing = 0;
form.addEventListener("input", () => {
  clearTimeout(typing);
  typing = setTimeout(apply, TYPING_MS);
});
form.addEventListener("submit", (event) => {
  event.preventDefault();
  clearTimeout(typing);
  apply();
});

function showFields(isShown) {
  document.getElementById("filter-fields").hidden = !isShown;
  document.getElementById("more-filters").setAttribute("aria-expanded", String(isShown));
  if (isShown) loadValues();
}

let hasValues = false;
async function loadValues() {
  if (hasValues) return;
  hasValues = true;
  const values = await getJson("/api/filters", "");
  for (const [name, list] of Object.entries(values)) {
    document.getElementById(name)?.replaceChildren(...list.map((value) => el("option", { value })));
  }
}

document.getElementById("more-filters").addEventListener("click", () => showFields(document.getElementById("filter-fields").hidden));
document.getElementById("clear-filters").addEventListener("click", () => {
  for (const field of form.elements) {
    if (!field.name) continue;
    if (field.type === "checkbox") field.checked = false;
    else field.value = "";
  }
  apply();
});

function choose(row, isChosen) {
  if (isChosen) chosen.set(row.key, row.title);
  else chosen.delete(row.key);
  const [a, b] = chosen.keys();
  const link = document.getElementById("compare");
  link.hidden = chosen.size === 0;
  link.textContent = chosen.size < 2 ? "Choose another session to compare" : "Compare two sessions";
  if (chosen.size >= 2) link.href = `/compare?${new URLSearchParams({ a, b })}`;
  else link.removeAttribute("href");
}

/** Select the same session after the list was read again: others may have come before it. */
function restoreSelection() {
  if (current.selected < 0) return;
  const place = current.key ? current.items.placeOf(current.key) : -1;
  if (place >= 0) current.selected = place;
  current.key ??= keyAt(current.selected);
  markSelected();
}

function keyAt(index) {
  return current.items.at(index)?.key ?? null;
}

function markSelected() {
  for (const [place, element] of current.list?.mounted ?? []) {
    (element.querySelector(".session-row") ?? element).classList.toggle("is-selected", place === current.selected);
  }
}

function select(index) {
  const list = current.list;
  if (!list || !current.items.count()) return;
  current.selected = Math.max(0, Math.min(index, current.items.count() - 1));
  current.key = keyAt(current.selected);
  if (!isOnScreen(list.mounted.get(current.selected))) list.show(current.selected, list.viewHeight / 3);
  markSelected();
}

function isOnScreen(element) {
  if (!element) return false;
  const box = element.getBoundingClientRect();
  const frame = scroller.getBoundingClientRect();
  return box.top >= frame.top && box.bottom <= frame.bottom;
}

function move(step) {
  select(current.selected + step);
  const row = current.items.at(current.selected);
  if (row) announce(`${row.title}, ${row.age}`);
}

const KEYS = {
  "/": () => document.getElementById("q").focus(),
  j: () => move(1),
  k: () => move(-1),
  x: () => current.list?.mounted.get(current.selected)?.querySelector("input")?.click(),
  Enter: () => openSelected().catch(showError),
};

async function openSelected() {
  const { items, selected } = current;
  if (selected < 0) return;
  // Its page may be on the way, as while a key is held down; loading it selects the session.
  if (!current.key && items instanceof SessionRows) await items.load(Math.floor(selected / PAGE));
  if (current.key && items === current.items) location.assign(addressOf(current));
}

document.getElementById("q").addEventListener("keydown", (event) => {
  if (event.key !== "Escape" && event.key !== "ArrowDown") return;
  // The query stays: the keys of the list are for what it found.
  event.preventDefault();
  event.target.blur();
  if (event.key === "ArrowDown") select(Math.max(current.selected, 0));
});

document.addEventListener("keydown", (event) => {
  if (event.ctrlKey || event.metaKey || event.altKey || isTyping(event)) return;
  if (event.key === "Enter" && isOnControl(event)) return;
  if (!KEYS[event.key]) return;
  event.preventDefault();
  KEYS[event.key]();
});

setInterval(() => {
  if (!document.hidden) current.items?.poll().catch(() => {});
}, POLL_MS);
NARROW.addEventListener("change", () => current.list?.reset());

fillForm();
show(Number(new URLSearchParams(location.search).get("at")) || 0);
