// A list of any length of which only what is on screen is mounted.
//
// The position is an anchor: an item and the distance from its top to the top of the screen. Items
// are laid out around it, so nothing moves when estimated heights turn out wrong. A browser limits
// an element to some 17 to 33 million pixels, so the track is capped and long jumps are mapped to
// it, while small steps move the anchor pixel by pixel.

import { Fenwick } from "./fenwick.js";

const LONGEST_TRACK = 8_000_000;
const SETTLE_MS = 160;

export class VirtualList {
  /** `items`: { count(), estimate(i), render(i), rows(i) }, or estimates() for all instead of count(); `limit`: the most rows to mount. */
  constructor(scroller, items, { limit = 190, overscan = 400, onWindow = null } = {}) {
    Object.assign(this, { scroller, items, limit, overscan, onWindow });
    this.track = document.createElement("div");
    this.track.className = "tl-track";
    this.pane = document.createElement("div");
    this.pane.className = "tl-pane";
    this.track.append(this.pane);
    scroller.append(this.track);
    this.mounted = new Map();
    this.anchor = { index: 0, offset: 0 };
    this.lastTop = 0;
    this.observer = new ResizeObserver((changes) => this.measured(changes));
    this.viewObserver = new ResizeObserver(() => this.render());
    this.onScroll = () => this.scrolled();
    scroller.addEventListener("scroll", this.onScroll, { passive: true });
    this.viewObserver.observe(scroller);
    this.reset();
  }

  destroy() {
    this.observer.disconnect();
    this.viewObserver.disconnect();
    this.scroller.removeEventListener("scroll", this.onScroll);
    clearTimeout(this.settling);
    this.track.remove();
  }

  /** Read the items again; the reader stays at the anchor. */
  reset() {
    const known = this.heights;
    const { items } = this;
    const heights = items.estimates?.() ?? Float64Array.from({ length: items.count() }, (_, i) => items.estimate(i));
    this.exact ??= new Set();
    for (const i of this.exact) if (i < Math.min(heights.length, known.length)) heights[i] = known.values[i];
    this.heights = new Fenwick(heights);
    this.unmountAll();
    this.render();
    this.settle();
  }

  get viewHeight() {
    return this.scroller.clientHeight;
  }

  get trackHeight() {
    return Math.min(this.heights.total, LONGEST_TRACK);
  }

  /** The distance of the top of the screen from the top of the list, in pixels of the list. */
  get offset() {
    return this.heights.before(this.anchor.index) + this.anchor.offset;
  }

  get isAtEnd() {
    return this.offset + this.viewHeight >= this.heights.total - 24;
  }

  scrolled() {
    const top = this.scroller.scrollTop;
    const step = top - this.lastTop;
    this.lastTop = top;
    if (!step) return;
    this.moveTo(Math.abs(step) <= this.viewHeight * 1.5 ? this.offset + step : this.toOffset(top));
    this.isFollowing = this.isAtEnd;
    this.render();
    clearTimeout(this.settling);
    this.settling = setTimeout(() => this.settle(), SETTLE_MS);
  }

  toOffset(top) {
    const room = this.trackHeight - this.viewHeight;
    return room > 0 ? (top / room) * (this.heights.total - this.viewHeight) : 0;
  }

  moveTo(offset) {
    const end = Math.max(0, this.heights.total - this.viewHeight);
    const { index, rest } = this.heights.find(Math.min(Math.max(0, offset), end));
    this.anchor = { index, offset: rest };
  }

  /** Put an item at the top of the screen, or `below` pixels below it. */
  show(index, below = 0) {
    this.isFollowing = false;
    this.anchor = { index, offset: 0 };
    this.render();
    this.moveTo(this.offset - below);
    this.render();
    this.settle();
  }

  showEnd() {
    this.isFollowing = true;
    for (let i = 0; i < 3; i++) {
      this.moveTo(this.heights.total);
      this.render();
    }
    this.settle();
  }

  /** Scroll by some pixels of the list. */
  scrollBy(pixels) {
    this.isFollowing = false;
    this.moveTo(this.offset + pixels);
    this.render();
    this.settle();
  }

  /** Make the scroll bar agree with the anchor again. */
  settle() {
    this.sizeTrack();
    const room = this.heights.total - this.viewHeight;
    const top = room > 0 ? (this.offset / room) * (this.trackHeight - this.viewHeight) : 0;
    this.scroller.scrollTop = Math.round(top);
    this.lastTop = this.scroller.scrollTop;
    this.place();
  }

  /** Replace an item that is mounted, as when its content has arrived. */
  refresh(index) {
    const old = this.mounted.get(index);
    this.exact.delete(index);
    if (!old) {
      this.heights.set(index, this.items.estimate(index));
      return;
    }
    const fresh = this.create(index);
    this.observer.unobserve(old);
    old.replaceWith(fresh);
    this.measure([index]);
    // Content that arrives at the end, as in a live session, is shown at once.
    if (this.isFollowing) this.showEnd();
    else this.render();
  }

  /** Take over changed heights of items, as when some are folded. */
  reestimate(first, last) {
    for (let i = first; i <= last; i++) {
      this.exact.delete(i);
      this.heights.set(i, this.items.estimate(i));
      this.unmount(i);
    }
    this.render();
    this.settle();
  }

  render() {
    if (!this.heights.length || !this.viewHeight) {
      if (!this.heights.length) this.unmountAll();
      return;
    }
    // Twice: heights measured in the first round may leave a gap at the bottom or show too much.
    for (let round = 0; round < 3; round++) {
      const range = this.range();
      const fresh = this.mountRange(range);
      if (!this.measure(fresh)) break;
      if (this.anchor.offset > this.heights.values[this.anchor.index]) this.moveTo(this.offset);
    }
    const end = this.heights.total - this.viewHeight;
    if (this.offset > end) {
      this.moveTo(end);
      this.mountRange(this.range());
    }
    this.place();
    this.onWindow?.(this.first, this.last);
  }

  /** The first and the last item to mount. */
  range() {
    const { index, offset } = this.anchor;
    const values = this.heights.values;
    let first = index;
    let last = index;
    let rows = this.items.rows(index);
    let below = values[index] - offset;
    while (below < this.viewHeight + this.overscan && last + 1 < values.length) {
      const more = values[last + 1] > 0 ? this.items.rows(last + 1) : 0;
      if (rows + more > this.limit) break;
      last += 1;
      rows += more;
      below += values[last];
    }
    let above = offset;
    while (above < this.overscan && first > 0) {
      const more = values[first - 1] > 0 ? this.items.rows(first - 1) : 0;
      if (rows + more > this.limit) break;
      first -= 1;
      rows += more;
      above += values[first];
    }
    return { first, last };
  }

  /** Mount a range, unmount the rest, and return the items that are new. */
  mountRange({ first, last }) {
    for (const index of [...this.mounted.keys()]) if (index < first || index > last || !(this.heights.values[index] > 0)) this.unmount(index);
    const fresh = [];
    let after = null;
    for (let i = last; i >= first; i--) {
      if (!(this.heights.values[i] > 0)) continue;
      let element = this.mounted.get(i);
      if (!element) {
        element = this.create(i);
        this.pane.insertBefore(element, after);
        fresh.push(i);
      }
      after = element;
    }
    this.first = first;
    this.last = last;
    return fresh;
  }

  create(index) {
    const element = this.items.render(index);
    element.dataset.item = index;
    this.mounted.set(index, element);
    this.observer.observe(element);
    return element;
  }

  unmount(index) {
    const element = this.mounted.get(index);
    if (!element) return;
    this.observer.unobserve(element);
    element.remove();
    this.mounted.delete(index);
  }

  unmountAll() {
    for (const index of [...this.mounted.keys()]) this.unmount(index);
  }

  /** Take over the heights of some mounted items; return whether any was different. */
  measure(indexes) {
    let isChanged = false;
    for (const index of indexes) {
      const element = this.mounted.get(index);
      const height = element?.isConnected ? element.getBoundingClientRect().height : 0;
      if (!height) continue;
      this.exact.add(index);
      if (Math.abs(height - this.heights.values[index]) > 0.5) {
        this.heights.set(index, height);
        isChanged = true;
      }
    }
    return isChanged;
  }

  measured(changes) {
    const indexes = changes.map((change) => Number(change.target.dataset.item));
    if (!this.measure(indexes.filter((index) => this.mounted.has(index)))) return;
    this.render();
    clearTimeout(this.settling);
    this.settling = setTimeout(() => this.settle(), SETTLE_MS);
  }

  /** Move the pane so that the anchor is where it belongs on screen. */
  place() {
    const element = this.mounted.get(this.anchor.index);
    if (!element) return;
    const top = this.scroller.scrollTop - this.anchor.offset - element.offsetTop;
    this.pane.style.transform = `translateY(${top}px)`;
    this.sizeTrack();
  }

  sizeTrack() {
    if (Math.abs(this.trackHeight - (this.sized ?? 0)) <= 1) return;
    this.sized = this.trackHeight;
    this.track.style.height = `${this.sized}px`;
  }
}
