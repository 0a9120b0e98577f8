// A note about a large session whose start is shown while the rest is read.

import { el } from "./dom.js";
import { bytes, plural } from "./format.js";

const PAUSE = 1000;

/** Return whether a place is behind the lines that were read so far. */
export function isAhead(store, { leaf, line, turn }) {
  const { reading, session } = store.head;
  return Boolean(reading) && (Boolean(leaf) || Number(line) > session.lines || Number(turn) > session.turns);
}

/** Show how far the session was read; when all of it was, open it again where the reader is. */
export async function followReading(viewer, state) {
  const { store, source } = viewer;
  let { reading } = store.head;
  if (!reading || !source.reading) return;
  const bar = el("progress", { max: "1", "aria-label": "session read" });
  const share = el("span", { class: "tl-reading-share" });
  const text = `The first ${plural(store.turnCount, "turn")} of this session of ${bytes(reading.size)} are shown while the rest is read. Figures and find cover these turns.`;
  viewer.header.append(el("div", { class: "tl-head-row tl-reading" }, bar, share, el("span", { role: "status", text })));
  while (reading) {
    bar.value = reading.done / reading.size;
    share.textContent = `${Math.floor(bar.value * 100)} %`;
    await new Promise((done) => setTimeout(done, PAUSE));
    if (viewer.store !== store || !viewer.element.isConnected) return;
    const answer = await source.reading().catch(() => null);
    if (answer) ({ reading } = answer);
  }
  const turn = (viewer.currentTurn ?? 0) + 1;
  await viewer.open(isAhead(store, state) ? state : { ...viewer.state, ...(turn > 1 ? { turn } : {}) });
  viewer.say(`all ${plural(viewer.store.turnCount, "turn")} are shown`);
}
