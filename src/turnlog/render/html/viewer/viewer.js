// The viewer of a session: outline | transcript | inspector.
//
// `source` gives the data: head(leaf) and turns(first, last, leaf); optionally rows(n, first, last,
// leaf, isWhole), labels(first, last, leaf), raw(line), context(line), lost(line), find(text, leaf),
// agent(id), lanes(), findings() and onGrow(callback). A missing method hides its feature.

import { el } from "./dom.js";
import { SessionStore } from "./session_store.js";
import { Transcript } from "./transcript.js";

/** Show a session inside an element; return a handle with `goTo`, `store` and `destroy`. */
export function mountViewer(element, source, options = {}) {
  const viewer = new Viewer(element, source, options);
  viewer.ready = viewer.open(options.leaf ?? null);
  return viewer;
}

class Viewer {
  constructor(element, source, options) {
    Object.assign(this, { element, source, options });
    element.classList.add("tl-viewer");
    this.scroller = el("main", { class: "tl-transcript", tabindex: "0", "aria-label": "transcript" });
    element.replaceChildren(this.scroller);
  }

  async open(leaf) {
    this.transcript?.destroy();
    this.store = await new SessionStore(this.source, leaf).open();
    this.transcript = new Transcript(this.scroller, this.store, this);
    if (this.options.line) await this.transcript.goToLine(this.options.line);
  }

  destroy() {
    this.transcript?.destroy();
    this.element.replaceChildren();
  }
}
