// What every page has: the theme switch, the list of shortcuts, and keys that lead to other pages.

const THEMES = ["auto", "light", "dark"];
const PAGES = { o: "/", s: "/sessions", c: "/cost", t: "/tools", f: "/files", l: "/live" };
const CHORD_MS = 1000;
const RELOAD_MS = 3000;

/** Whether a key belongs to a field that is being typed in. */
export function isTyping(event) {
  const target = event.target;
  return target instanceof HTMLElement && (target.isContentEditable || /^(INPUT|TEXTAREA|SELECT)$/.test(target.tagName));
}

/** Tell a screen reader something. */
export function announce(text) {
  document.getElementById("announcer").textContent = text;
}

function currentTheme() {
  return document.documentElement.dataset.theme ?? "auto";
}

function setTheme(name) {
  if (name === "auto") delete document.documentElement.dataset.theme;
  else document.documentElement.dataset.theme = name;
  try {
    if (name === "auto") localStorage.removeItem("turnlog-theme");
    else localStorage.setItem("turnlog-theme", name);
  } catch {
    // The choice then lasts until the next page.
  }
  showTheme();
}

function showTheme() {
  const button = document.getElementById("theme-button");
  button.textContent = currentTheme();
  button.setAttribute("aria-label", `Colour theme: ${currentTheme()}`);
}

function openShortcuts() {
  const dialog = document.getElementById("shortcuts");
  if (!dialog.open) dialog.showModal();
}

/** Load the page again, which was made before the index was complete. */
function reloadLater() {
  const isBusy = () => document.querySelector("dialog[open], input:focus, select:focus");
  const timer = setInterval(() => isBusy() || location.reload(), RELOAD_MS);
  // A reload would cancel the visit of another page that has begun.
  addEventListener("beforeunload", () => clearInterval(timer));
}

let chordStarted = 0;

function onKey(event) {
  if (event.defaultPrevented || event.ctrlKey || event.metaKey || event.altKey || isTyping(event)) return;
  if (event.key === "?") {
    event.preventDefault();
    openShortcuts();
  } else if (event.key === "g") {
    chordStarted = Date.now();
  } else if (PAGES[event.key] && Date.now() - chordStarted < CHORD_MS) {
    event.preventDefault();
    event.stopImmediatePropagation();
    location.assign(PAGES[event.key]);
  } else {
    chordStarted = 0;
  }
}

document.getElementById("theme-button").addEventListener("click", () => {
  setTheme(THEMES[(THEMES.indexOf(currentTheme()) + 1) % THEMES.length]);
});
if (document.querySelector("#index-notice[data-reload]")) reloadLater();
// The viewer of a session has keys and a list of its own.
if (document.getElementById("shortcuts")) {
  document.getElementById("shortcuts-button").addEventListener("click", openShortcuts);
  document.getElementById("shortcuts-close").addEventListener("click", () => document.getElementById("shortcuts").close());
  // In the capture phase: after `g`, a letter must not reach the keys of the page itself.
  document.addEventListener("keydown", onKey, { capture: true });
}
showTheme();
