// Heights of a list in a Fenwick tree: change one, sum a prefix and find an offset in O(log n).

export class Fenwick {
  constructor(values) {
    this.values = new Float64Array(values);
    this.sums = new Float64Array(this.values.length + 1);
    for (let i = 1; i < this.sums.length; i++) {
      this.sums[i] += this.values[i - 1];
      const next = i + (i & -i);
      if (next < this.sums.length) this.sums[next] += this.sums[i];
    }
  }

  get length() {
    return this.values.length;
  }

  get total() {
    return this.before(this.length);
  }

  set(index, value) {
    const change = value - this.values[index];
    if (!change) return;
    this.values[index] = value;
    for (let i = index + 1; i < this.sums.length; i += i & -i) this.sums[i] += change;
  }

  /** The sum of the first `count` values. */
  before(count) {
    let sum = 0;
    for (let i = count; i > 0; i -= i & -i) sum += this.sums[i];
    return sum;
  }

  /** The value that contains an offset, and the offset inside it. */
  find(offset) {
    let index = 0;
    let rest = Math.max(0, offset);
    for (let step = 1 << Math.floor(Math.log2(this.length || 1)); step; step >>= 1)
      if (index + step <= this.length && this.sums[index + step] <= rest) {
        index += step;
        rest -= this.sums[index];
      }
    return index < this.length ? { index, rest } : { index: Math.max(0, this.length - 1), rest: 0 };
  }
}
