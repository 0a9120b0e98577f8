// What the viewer knows of a session: its head, the turns loaded so far, and how turns are split
// into parts, the items of the list. A part has at most PART_ROWS rows, so that a turn of thousands
// of calls is mounted piece by piece.

export const PART_ROWS = 25;
export const FOLD_ABOVE = 60;
const BATCH = 8;
const MOST_PAGES = 400;
const HEIGHTS = { prompt: 84, answer: 96, row: 27, end: 34, head: 30 };
const MOST_ROWS_KEPT = 5_000;

export class SessionStore {
  constructor(source, leaf = null) {
    this.source = source;
    this.leaf = leaf;
    this.pages = new Map();
    this.folds = new Map();
    this.pending = new Map();
    this.listeners = new Set();
  }

  /** Load the head, and at the same time the first turns if they are shown first. */
  async open(isAtStart = false) {
    const first = isAtStart ? this.source.turns(1, BATCH, this.leaf) : null;
    if (first) this.pending.set(0, first.then((pages) => this.take(0, pages)).catch((error) => this.fail(0, error)));
    this.head = await this.source.head(this.leaf);
    this.outline = this.head.outline;
    this.split();
    return this;
  }

  get turnCount() {
    return this.outline.n.length;
  }

  /** Compute which parts each turn has. */
  split() {
    this.starts = new Int32Array(this.turnCount + 1);
    for (let t = 0; t < this.turnCount; t++) this.starts[t + 1] = this.starts[t] + this.partsOf(t);
  }

  partsOf(t) {
    return Math.max(1, Math.ceil(this.rowCount(t) / PART_ROWS));
  }

  /** The number of rows of a turn: exact once it is loaded, else estimated from the outline. */
  rowCount(t) {
    return this.outline.rows[t];
  }

  get partCount() {
    return this.starts[this.turnCount];
  }

  /** The turn (from 0) and the part of it that an item of the list is. */
  place(item) {
    let low = 0;
    let high = this.turnCount - 1;
    while (low < high) {
      const middle = (low + high + 1) >> 1;
      if (this.starts[middle] <= item) low = middle;
      else high = middle - 1;
    }
    return { t: low, part: item - this.starts[low] };
  }

  item(t, row = 0) {
    const parts = this.starts[t + 1] - this.starts[t];
    return this.starts[t] + (this.isFolded(t) ? 0 : Math.min(Math.floor(row / PART_ROWS), parts - 1));
  }

  isFolded(t) {
    return this.folds.get(t) ?? this.rowCount(t) > FOLD_ABOVE;
  }

  /** The range of rows in a part; the last one takes what the estimate missed. */
  rowRange(t, part) {
    const isLast = part === this.starts[t + 1] - this.starts[t] - 1;
    const total = this.pages.get(t)?.total ?? this.rowCount(t);
    return { first: part * PART_ROWS, last: isLast ? Math.max(total, part * PART_ROWS) : (part + 1) * PART_ROWS };
  }

  estimate(item) {
    const { t, part } = this.place(item);
    if (this.isFolded(t)) return part ? 0 : HEIGHTS.head + HEIGHTS.prompt + HEIGHTS.answer + HEIGHTS.end;
    const { first, last } = this.rowRange(t, part);
    const around = (part ? 0 : HEIGHTS.head + HEIGHTS.prompt) + (last >= this.rowCount(t) ? HEIGHTS.end : 0);
    return Math.max(1, last - first) * HEIGHTS.row + around;
  }

  rowsIn(item) {
    const { t, part } = this.place(item);
    if (this.isFolded(t)) return part ? 0 : 4;
    const { first, last } = this.rowRange(t, part);
    return Math.max(1, last - first);
  }

  /** The rows of a part if they are loaded; else undefined, and they are requested. */
  rows(t, part) {
    const page = this.pages.get(t);
    const { first, last } = this.rowRange(t, part);
    if (!page) {
      this.request(t);
      return undefined;
    }
    const rows = page.rows.slice(first, Math.min(last, page.total));
    for (let i = 0; i < Math.min(last, page.total) - first; i++)
      if (!rows[i]) {
        this.requestRows(t, first, Math.min(last, page.total));
        return undefined;
      }
    return rows;
  }

  /** The page of a turn, loaded if need be. */
  async page(t) {
    if (!this.pages.has(t)) await this.request(t);
    return this.pages.get(t);
  }

  /** Every row of a turn, loaded if need be. */
  async wholePage(t) {
    const page = await this.page(t);
    if (!page) return undefined;
    for (let first = 0; first < page.total; first += 200) {
      const last = Math.min(first + 200, page.total);
      if (!page.rows.slice(first, last).every(Boolean) || page.rows.length < last) await this.requestRows(t, first, last);
    }
    return page;
  }

  request(t) {
    const batch = Math.floor(t / BATCH);
    if (!this.pending.has(batch)) {
      const first = batch * BATCH + 1;
      const last = Math.min(first + BATCH - 1, this.turnCount);
      const loading = this.source.turns(first, last, this.leaf).then((pages) => this.take(batch, pages));
      this.pending.set(batch, loading.catch((error) => this.fail(batch, error)));
    }
    return this.pending.get(batch);
  }

  take(batch, pages) {
    this.pending.delete(batch);
    this.error = null;
    for (const page of pages) {
      this.pages.delete(page.n - 1);
      this.pages.set(page.n - 1, page);
      page.total ??= page.rows.length;
    }
    this.forget();
    this.tell(pages.map((page) => page.n - 1));
  }

  fail(batch, error) {
    this.error = error;
    setTimeout(() => this.pending.delete(batch), 2000);
    const turns = Array.from({ length: BATCH }, (_, i) => batch * BATCH + i);
    this.tell(turns);
  }

  /** Drop the turns loaded first, to bound the memory of a long visit. */
  forget() {
    let kept = 0;
    for (const page of this.pages.values()) kept += page.rows.length;
    for (const [t, page] of this.pages) {
      if (kept <= MOST_ROWS_KEPT && this.pages.size <= MOST_PAGES) return;
      if (this.isShown?.(t)) continue;
      this.pages.delete(t);
      kept -= page.rows.length;
    }
  }

  async requestRows(t, first, last) {
    const key = `${t}:${first}`;
    if (this.pending.has(key) || !this.source.rows) return this.pending.get(key);
    const loading = this.source.rows(t + 1, first, last, this.leaf).then((part) => {
      this.pending.delete(key);
      const page = this.pages.get(t);
      if (!page) return;
      part.rows.forEach((row, i) => (page.rows[part.first + i] = row));
      part.messages?.forEach((message, i) => message.id !== undefined && (page.messages[i] = message));
      this.tell([t]);
    });
    this.pending.set(key, loading);
    return loading;
  }

  /** A row with its whole texts. */
  async wholeRow(t, index) {
    const row = this.pages.get(t).rows[index];
    if (!row.cut || !this.source.rows) return row;
    const part = await this.source.rows(t + 1, index, index + 1, this.leaf, true);
    return (this.pages.get(t).rows[index] = { ...row, cut: undefined, ...part.rows[0] });
  }

  /** The turn (from 0) that contains a line: the last one that starts at or before it. */
  turnOfLine(line) {
    let low = 0;
    let high = this.turnCount - 1;
    while (low < high) {
      const middle = (low + high + 1) >> 1;
      if (this.outline.line[middle] <= line) low = middle;
      else high = middle - 1;
    }
    return low;
  }

  /** Load labels of the outline that the head left out. */
  async loadLabels(first, last) {
    const missing = [];
    for (let t = first; t < last; t++) if (this.outline.label[t] === undefined) missing.push(t);
    if (!missing.length || !this.source.labels) return false;
    const from = missing[0];
    const to = missing[missing.length - 1] + 1;
    const labels = await this.source.labels(from + 1, to, this.leaf);
    labels.forEach((label, i) => (this.outline.label[from + i] = label));
    return true;
  }

  onChange(listener) {
    this.listeners.add(listener);
  }

  tell(turns) {
    for (const listener of this.listeners) listener(turns);
  }

  /** Read what has grown; return whether anything did. */
  async grow() {
    const before = this.turnCount;
    const since = Math.max(1, before);
    const head = await this.source.head(this.leaf, since);
    if (head.session.size === this.head.session.size && head.session.turns === before) return false;
    this.head = head;
    const offset = head.outline.n.length ? head.outline.n[0] - 1 : 0;
    for (const [name, column] of Object.entries(this.outline)) {
      column.length = Math.min(column.length, Math.max(offset, name === "label" ? before : 0));
      head.outline[name]?.forEach((value, i) => (column[offset + i] = value));
    }
    head.outline = this.outline;
    // The last turn may have grown, so its page is stale.
    this.pages.delete(before - 1);
    this.pending.clear();
    this.split();
    return true;
  }
}
