// A file at any moment: a list of files, a slider over the states of one, and its content.
//
// Contents come from a session and reach the page only as text.

import { copyButton, el, textElement, visible } from "./dom.js";
import { bytes, dateTime, plural } from "./format.js";

/** The files of a session as of a line. `source` has files(line) and file(file, line, version). */
export class FileTime {
  constructor(source, goToLine = null, project = "") {
    Object.assign(this, { source, goToLine, project, isDiff: false });
  }

  /** Return the elements for a line; null is the end of the session. */
  async at(line) {
    this.line = line;
    const { files, rest, moment } = await this.source.files(line);
    if (!files.length) return [textElement("p", "tl-quiet", `No file was changed.`)];
    const here = files.find((each) => each.is_here) ?? files.find((each) => each.file === this.file) ?? files[0];
    const select = el("select", { class: "tl-select", "aria-label": "file", onchange: () => this.open(Number(select.value)) });
    for (const each of files) {
      const option = el("option", { value: each.file });
      option.textContent = `${each.is_here ? "● " : ""}${visible(this.shortened(each.path))} (${each.is_absent ? "absent" : each.certainty})`;
      option.selected = each === here;
      select.append(option);
    }
    this.pane = el("div", { class: "tl-time" });
    await this.open(here.file);
    return [textElement("h2", "tl-heading", `files as of ${moment}`), el("label", {}, select), rest ? textElement("p", "tl-quiet", `${plural(rest, "more file")}`) : "", this.pane].filter(Boolean);
  }

  /** Return a path relative to the project: the menu is narrow, and file names are at the end. */
  shortened(path) {
    return this.project && path.startsWith(`${this.project}/`) ? path.slice(this.project.length + 1) : path;
  }

  /** Show one file as of the line. */
  async open(file) {
    this.file = file;
    await this.load(null);
  }

  async load(version) {
    const asked = (this.asked = Symbol("request"));
    try {
      const found = await this.source.file(this.file, this.line, version);
      if (this.asked === asked) this.draw(found, version);
    } catch (error) {
      if (this.asked === asked) this.pane.replaceChildren(textElement("p", "tl-quiet", error.message));
    }
  }

  draw(found, version) {
    const focused = this.pane.contains(document.activeElement) ? document.activeElement.id : "";
    this.pane.replaceChildren(...this.controls(found, version), ...stateParts(found, this.isDiff));
    if (focused) this.pane.querySelector(`#${focused}`)?.focus();
  }

  controls({ versions, number, moment }, version) {
    if (!versions.length) return [];
    const slider = el("input", { type: "range", id: "tl-time-slider", min: "0", max: String(versions.length - 1), step: "1", "aria-label": "time" });
    slider.value = String(Math.max(0, number));
    slider.addEventListener("input", () => this.load(Number(slider.value)));
    const here = versions[number];
    const label = version === null ? `as of ${moment}` : versionLabel(here, number, versions.length);
    slider.setAttribute("aria-valuetext", label);
    const buttons = el("div", { class: "tl-buttons" }, el("button", { class: "tl-button", type: "button", id: "tl-time-diff", text: this.isDiff ? "content" : "diff", onclick: () => this.toggle(version) }));
    if (version !== null) buttons.append(el("button", { class: "tl-button", type: "button", text: "as of this message", onclick: () => this.load(null) }));
    if (here?.line && this.goToLine) buttons.append(el("button", { class: "tl-button", type: "button", text: `line ${here.line}`, onclick: () => this.goToLine(here.line) }));
    return [slider, textElement("p", "tl-quiet", label), buttons];
  }

  toggle(version) {
    this.isDiff = !this.isDiff;
    return this.load(version);
  }
}

/** Describe a version: its number, tool and time. */
export function versionLabel(version, number, total) {
  const who = version.agent_id ? `${version.tool} of a sub-agent` : version.tool;
  return [`${number + 1} of ${total}`, version.turn ? `turn ${version.turn}` : "", who, version.time ? dateTime(version.time) : "", version.certainty].filter(Boolean).join(" · ");
}

/** Return the elements for a state: how well it is known, and its content or its diff. */
export function stateParts({ state, diff }, isDiff = false) {
  const size = state.size === null ? "" : ` · ${bytes(state.size)}`;
  const parts = [el("p", {}, textElement("strong", `tl-${state.certainty}`, state.is_absent ? `absent (${state.certainty})` : state.certainty), `${size} · ${visible(state.tool)}`)];
  if (state.reason) parts.push(textElement("p", "tl-quiet", state.reason));
  if (isDiff) return [...parts, diff.length ? diffElement(diff) : textElement("p", "tl-quiet", "No difference to the state before is known.")];
  if (state.gaps.length) parts.push(textElement("p", "tl-quiet", `unknown: ${state.gaps.map(({ first, last }) => (last === null ? `from line ${first} on` : first === last ? `line ${first}` : `lines ${first}-${last}`)).join(", ")}`));
  const text = state.content ?? state.known.map(([number, line]) => `${String(number).padStart(5)}  ${line}`).join("\n");
  if (state.encoding === "base64") parts.push(textElement("p", "tl-quiet", "The content is not text."));
  else if (!state.is_absent && (state.content !== null || state.known.length)) parts.push(el("div", { class: "tl-block" }, copyButton(text), textElement("pre", "tl-output tl-file-content", text)));
  if (state.is_cut) parts.push(textElement("p", "tl-quiet", "Only the start is shown."));
  return parts;
}

function diffElement(lines) {
  const classes = { "+": "tl-added", "-": "tl-removed", "@": "tl-hunk" };
  return el("pre", { class: "tl-output tl-diff" }, ...lines.map((line) => textElement("span", classes[line[0]] ?? "", line || " ")));
}
