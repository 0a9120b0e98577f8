// Build elements. Text reaches the page only through textContent, HTML only through `insertHtml`.

/** Create an element: `el("button", { class: "tl-x", onclick: f, "aria-label": "y" }, "text", child)`. */
export function el(tag, properties = {}, ...children) {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(properties)) {
    if (value === null || value === undefined || value === false) continue;
    if (name.startsWith("on")) element.addEventListener(name.slice(2), value);
    else if (name === "text") element.textContent = value;
    else element.setAttribute(name, value === true ? "" : value);
  }
  element.append(...children.flat().filter((child) => child !== null && child !== undefined && child !== ""));
  return element;
}

/** Create an SVG element; attributes only, since the policy of the page forbids styles. */
export function svg(tag, attributes = {}, ...children) {
  const element = document.createElementNS("http://www.w3.org/2000/svg", tag);
  for (const [name, value] of Object.entries(attributes)) element.setAttribute(name, value);
  element.append(...children);
  return element;
}

// The one place where a string becomes HTML. The page's policy names this Trusted Types policy, so
// any other `innerHTML = "<img onerror=…>"` throws instead of running.
const policy = globalThis.trustedTypes?.createPolicy("turnlog", { createHTML: (html) => html });

/** Set the content of an element to the `html` of a row, which turnlog rendered and sanitized. */
export function insertHtml(element, row) {
  element.innerHTML = policy ? policy.createHTML(row.html) : row.html;
}

const NAMES = { 0: "NUL", 7: "BEL", 8: "BS", 13: "CR", 27: "ESC", 127: "DEL" };
const UNSAFE =
  /[\u0000-\u0008\u000b-\u001f\u007f-\u009f\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069\u2028\u2029\u180e\u206a-\u206f\ufff9-\ufffb]|[\ud800-\udbff](?![\udc00-\udfff])|(?<![\ud800-\udbff])[\udc00-\udfff]|\udb40[\udc00-\udfff]/g;

/** Spell out characters that hide or reorder others: a bidi override becomes `<U+202E>`. */
export function visible(text) {
  return text.replace(/\r\n/g, "\n").replace(UNSAFE, (found) => {
    const code = found.codePointAt(0);
    return `<${NAMES[code] ?? `U+${code.toString(16).toUpperCase().padStart(4, "0")}`}>`;
  });
}

/** Create an element with visible text. */
export function textElement(tag, className, text) {
  const element = document.createElement(tag);
  if (className) element.className = className;
  element.textContent = visible(String(text ?? ""));
  return element;
}

/** Copy a text to the clipboard and say so on the button. */
export async function copyText(text, button) {
  const label = button?.textContent;
  try {
    await navigator.clipboard.writeText(text);
  } catch {
    // Without permission, as in a page opened from disk, the old command still works.
    const area = el("textarea", { class: "tl-offscreen", "aria-hidden": "true" });
    area.value = text;
    document.body.append(area);
    area.select();
    document.execCommand("copy");
    area.remove();
  }
  if (!button) return;
  button.textContent = "copied";
  setTimeout(() => (button.textContent = label), 1200);
}

/** A button that copies a text, or the text that a function returns. */
export function copyButton(text, label = "copy") {
  return el("button", {
    class: "tl-button tl-copy",
    type: "button",
    text: label,
    onclick: async (event) => {
      event.stopPropagation();
      await copyText(typeof text === "function" ? await text() : text, event.currentTarget);
    },
  });
}

/** Whether a key belongs to a link or a button, which Enter activates. */
export function isOnControl(event) {
  const control = event.target instanceof Element ? event.target.closest("a, button, summary") : null;
  // The button of a dialog keeps the focus for a moment after the dialog was closed.
  return Boolean(control?.getClientRects().length);
}
