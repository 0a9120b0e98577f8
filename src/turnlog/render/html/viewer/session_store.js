// What the viewer knows of a session: its head, the turns loaded so far, and how turns are split
// into parts, the items of the list. A part has at most PART_ROWS rows, so that a turn of thousands
// of calls is mounted piece by piece.
//
// The outline of a long session is loaded block by block. What is needed before is in `head.blocks`:
// which turns have several parts, and which blocks have errors, edits or compactions.

export const PART_ROWS = 25;
export const FOLD_ABOVE = 60;
const BATCH = 8;
const BATCH_ROWS = 60;
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

  /** Load the head, and with it the turns that are shown first. */
  async open({ line = null, turn = null } = {}) {
    if (this.source.opening) {
      const { head, turns } = await this.source.opening({ leaf: this.leaf, line, turn });
      this.useHead(head);
      this.take([], turns);
      return this;
    }
    if (!line && !turn) this.load(0, BATCH - 1);
    this.useHead(await this.source.head(this.leaf));
    return this;
  }

  useHead(head) {
    this.head = head;
    this.outline = head.outline;
    this.split();
  }

  get blocks() {
    return this.head.blocks ?? null;
  }

  get turnCount() {
    return this.blocks ? this.head.session.turns : this.outline.n.length;
  }

  /** Compute which parts each turn has. */
  split() {
    this.longTurns = new Map(this.blocks?.long_turns);
    this.meanRows = this.blocks ? Math.max(1, Math.min(PART_ROWS, Math.round(this.blocks.rows / this.turnCount))) : 1;
    this.starts = new Int32Array(this.turnCount + 1);
    for (let t = 0; t < this.turnCount; t++) this.starts[t + 1] = this.starts[t] + this.partsOf(t);
  }

  partsOf(t) {
    const rows = this.blocks ? this.longTurns.get(t) : this.outline.rows[t];
    return rows > PART_ROWS ? Math.ceil(rows / PART_ROWS) : 1;
  }

  /** The number of rows of a turn: exact once it is loaded, else estimated. */
  rowCount(t) {
    return this.outline.rows[t] ?? this.longTurns.get(t) ?? this.meanRows;
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

  /** The estimated heights of all items. */
  estimates() {
    const heights = new Float64Array(this.partCount);
    const isPlain = (t) => this.outline.rows[t] === undefined && !this.longTurns.has(t) && !this.folds.has(t);
    let plain;
    for (let t = 0; t < this.turnCount; t++)
      if (isPlain(t)) heights[this.starts[t]] = plain ??= this.estimate(this.starts[t]);
      else for (let item = this.starts[t]; item < this.starts[t + 1]; item++) heights[item] = this.estimate(item);
    return heights;
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

  /** Load a turn, and its neighbours as long as they are short. */
  request(t) {
    if (this.pending.has(t)) return this.pending.get(t);
    const isWanted = (other) => other >= 0 && other < this.turnCount && !this.pages.has(other) && !this.pending.has(other);
    let [first, last, rows] = [t, t, this.rowCount(t)];
    while (rows < BATCH_ROWS && last - t < BATCH && isWanted(last + 1)) rows += this.rowCount(++last);
    while (rows < BATCH_ROWS && t - first < BATCH && isWanted(first - 1)) rows += this.rowCount(--first);
    return this.load(first, last);
  }

  load(first, last) {
    const turns = Array.from({ length: last - first + 1 }, (_, i) => first + i);
    const loading = this.source.turns(first + 1, last + 1, this.leaf).then((pages) => this.take(turns, pages));
    const settled = loading.catch((error) => this.fail(turns, error));
    for (const t of turns) this.pending.set(t, settled);
    return settled;
  }

  take(turns, pages) {
    for (const t of turns) this.pending.delete(t);
    this.error = null;
    for (const page of pages) {
      this.pages.delete(page.n - 1);
      this.pages.set(page.n - 1, page);
      page.total ??= page.rows.length;
    }
    this.forget();
    this.tell(pages.map((page) => page.n - 1));
  }

  fail(turns, error) {
    this.error = error;
    setTimeout(() => turns.forEach((t) => this.pending.delete(t)), 2000);
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
  async turnOfLine(line) {
    if (!this.blocks) return lastAtOrBefore(this.outline.line, line, 0, this.turnCount);
    const first = lastAtOrBefore(this.blocks.line, line, 0, this.blocks.line.length) * this.blocks.size;
    const last = Math.min(first + this.blocks.size, this.turnCount);
    await this.loadOutline(first, last);
    return lastAtOrBefore(this.outline.line, line, first, last);
  }

  /** The next turn from `t` on whose figure in a column is not zero, or -1. */
  async nextWith(column, t, direction) {
    const { turnCount, blocks } = this;
    while (t >= 0 && t < turnCount) {
      const block = blocks ? Math.floor(t / blocks.size) : 0;
      const first = blocks ? block * blocks.size : 0;
      const last = blocks ? Math.min(first + blocks.size, turnCount) : turnCount;
      if (!blocks || blocks[column][block]) {
        await this.loadOutline(first, last);
        for (; t >= first && t < last; t += direction) if (this.outline[column][t]) return t;
      }
      t = direction > 0 ? last : first - 1;
    }
    return -1;
  }

  /** Load parts of the outline that the head left out; return whether there were any. */
  async loadOutline(first, last) {
    if (!this.blocks || !this.source.outline) return false;
    const { size } = this.blocks;
    const loading = [];
    for (let block = Math.floor(first / size); block * size < last; block++) if (this.isMissing(Math.max(first, block * size), Math.min(last, (block + 1) * size))) loading.push(this.loadBlock(block));
    await Promise.all(loading);
    return loading.length > 0;
  }

  isMissing(first, last) {
    for (let t = first; t < Math.min(last, this.turnCount); t++) if (this.outline.n[t] === undefined) return true;
    return false;
  }

  loadBlock(block) {
    const key = `outline:${block}`;
    if (!this.pending.has(key)) {
      const first = block * this.blocks.size + 1;
      const last = Math.min(first + this.blocks.size - 1, this.turnCount);
      const loading = this.source.outline(first, last, this.leaf).then((outline) => {
        this.addOutline(outline);
        this.tell(outline.n.map((n) => n - 1));
      });
      this.pending.set(key, loading.finally(() => this.pending.delete(key)));
    }
    return this.pending.get(key);
  }

  addOutline(outline) {
    const offset = outline.n.length ? outline.n[0] - 1 : 0;
    for (const [name, column] of Object.entries(outline)) {
      const known = (this.outline[name] ??= []);
      for (let i = 0; i < column.length; i++) known[offset + i] = column[i];
    }
  }

  /** The turns whose labels contain a text. */
  async turnsLabelled(text) {
    if (this.blocks && this.source.labelled) {
      const { matches } = await this.source.labelled(text, this.leaf);
      for (const { turn, label } of matches) this.outline.label[turn - 1] ??= label;
      return matches.map(({ turn }) => turn - 1);
    }
    await this.loadOutline(0, this.turnCount);
    const found = [];
    for (let t = 0; t < this.turnCount; t++) if (this.outline.label[t]?.toLowerCase().includes(text)) found.push(t);
    return found;
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
    const outline = this.outline;
    for (const column of Object.values(outline)) column.length = Math.min(column.length, Math.max(0, (head.outline.n[0] ?? 1) - 1));
    this.head = head;
    this.addOutline(head.outline);
    head.outline = outline;
    // The last turn may have grown, so its page is stale.
    this.pages.delete(before - 1);
    this.pending.clear();
    this.split();
    return true;
  }
}

/** The last place from `first` on whose value is not above a number. */
function lastAtOrBefore(values, number, first, last) {
  let low = first;
  let high = last - 1;
  while (low < high) {
    const middle = (low + high + 1) >> 1;
    if (values[middle] <= number) low = middle;
    else high = middle - 1;
  }
  return low;
}
