// Output of programs with its colours. Only colours act; any other escape sequence is spelled out.

import { visible } from "./dom.js";

const SGR = /\x1b\[([0-9;]*)m/g;
const MOST_SPANS = 2_000;

/** Set the text of an element, with its colours as classes. */
export function setOutput(element, text) {
  if (!text.includes("\x1b[")) {
    element.textContent = visible(text);
    return;
  }
  const parts = [];
  let style = { colour: "", bold: false };
  let end = 0;
  for (const found of text.matchAll(SGR)) {
    if (parts.length > MOST_SPANS) break;
    if (found.index > end) parts.push(piece(text.slice(end, found.index), style));
    style = changed(style, found[1]);
    end = found.index + found[0].length;
  }
  parts.push(piece(text.slice(end).replace(SGR, ""), style));
  element.replaceChildren(...parts);
}

function piece(text, { colour, bold }) {
  const shown = visible(text);
  if (!colour && !bold) return shown;
  const span = document.createElement("span");
  span.className = [colour && `tl-ansi-${colour}`, bold && "tl-ansi-bold"].filter(Boolean).join(" ");
  span.textContent = shown;
  return span;
}

/** The style after some codes: 31 is red, 91 bright red, 1 bold, 0 none of them. */
function changed(style, codes) {
  let { colour, bold } = style;
  for (const code of (codes || "0").split(";").map(Number)) {
    if (code === 0) [colour, bold] = ["", false];
    else if (code === 1) bold = true;
    else if (code === 22) bold = false;
    else if (code === 39) colour = "";
    else if (code >= 30 && code <= 37) colour = COLOURS[code - 30];
    else if (code >= 90 && code <= 97) colour = COLOURS[code - 90];
    else if (code === 38) break; // the numbers that follow choose one of 256 or more colours
  }
  return { colour, bold };
}

const COLOURS = ["muted", "red", "green", "yellow", "blue", "magenta", "cyan", ""];
