// A recorded launch, and the state of its arrays at a moment: what has touched each element so far.

const KINDS = ["read", "write", "atomic"];
const CHECKPOINT_BYTES = 160e6;

async function unpacked(text) {
  const packed = Uint8Array.from(atob(text), c => c.charCodeAt(0));
  const stream = new Blob([packed]).stream().pipeThrough(new DecompressionStream("deflate"));
  return new Response(stream).arrayBuffer();
}

async function columns(text, width) {
  const table = new Int32Array(await unpacked(text));
  const rows = table.length / width;
  return Array.from({ length: width }, (_, i) => table.subarray(i * rows, (i + 1) * rows));
}

class Recording {
  static async load(launch) {
    const made = new Recording();
    made.launch = launch;
    [made.kind, made.block, made.place, made.array, made.padding, made.group] = await columns(launch.events, 6);
    [made.start, made.length, made.count, made.step] = await columns(launch.groups, 4);
    made.size = made.kind.length;
    made.arrays = launch.arrays.map(a => new ArrayState(a));
    for (const array of made.arrays) await array.loadValues();
    made.violated = new Map();
    for (const v of launch.violations) if (v.event !== null) made.violated.set(v.event, v);
    const bytes = made.arrays.reduce((n, a) => n + a.size * 7, 1);
    made.every = Math.max(64, Math.ceil(made.size / Math.min(24, Math.max(1, CHECKPOINT_BYTES / bytes))));
    made.saved = [made.arrays.map(a => a.copy())];
    made.now = 0;
    return made;
  }

  // Bring the arrays to the moment after the first `moment` accesses.
  seek(moment) {
    const nearest = Math.min(this.saved.length - 1, Math.floor(moment / this.every));
    if (moment < this.now || nearest * this.every > this.now) {
      this.arrays.forEach((a, i) => a.restore(this.saved[nearest][i]));
      this.now = nearest * this.every;
    }
    while (this.now < moment) {
      this.apply(this.now++);
      if (this.now === this.saved.length * this.every) this.saved.push(this.arrays.map(a => a.copy()));
    }
  }

  apply(event) {
    const array = this.arrays[this.array[event]], bit = 1 << this.kind[event];
    this.runs(event, (from, to) => {
      array.last.fill(event, from, to);
      for (let e = from; e < to; e++) {
        array.kinds[e] |= bit;
        if (array.counts[e] < 65535) array.counts[e]++;
      }
    });
  }

  // Calls visit(from, to) for each run of elements that an access touches.
  runs(event, visit) {
    const end = event + 1 < this.size ? this.group[event + 1] : this.start.length;
    for (let g = this.group[event]; g < end; g++) {
      for (let k = 0, from = this.start[g]; k < this.count[g]; k++, from += this.step[g]) visit(from, from + this.length[g]);
    }
  }

  touched(event) {
    let n = 0;
    this.runs(event, (from, to) => { n += to - from; });
    return n;
  }

  contains(event, element) {
    const end = event + 1 < this.size ? this.group[event + 1] : this.start.length;
    for (let g = this.group[event]; g < end; g++) {
      const distance = element - this.start[g];
      if (distance < 0) continue;
      const k = this.count[g] > 1 ? Math.min(this.count[g] - 1, Math.floor(distance / this.step[g])) : 0;
      if (distance - k * this.step[g] < this.length[g]) return true;
    }
    return false;
  }

  // The latest accesses to an element before the present moment, the last one first.
  history(array, element, most) {
    const found = [];
    for (let e = this.now - 1; e >= 0 && found.length < most; e--) {
      if (this.array[e] === array && this.contains(e, element)) found.push(e);
    }
    return found;
  }

  blockIndex(block) {
    const [x, y] = this.launch.grid;
    return [block % x, Math.floor(block / x) % y, Math.floor(block / (x * y))];
  }

  blockName(block) {
    return `(${this.blockIndex(block).join(", ")})`;
  }
}

class ArrayState {
  constructor(about) {
    this.about = about;
    this.size = about.shape.reduce((n, m) => n * m, 1);
    this.last = new Int32Array(this.size).fill(-1);
    this.kinds = new Uint8Array(this.size);
    this.counts = new Uint16Array(this.size);
  }

  copy() {
    return [this.last.slice(), this.kinds.slice(), this.counts.slice()];
  }

  restore([last, kinds, counts]) {
    this.last.set(last);
    this.kinds.set(kinds);
    this.counts.set(counts);
  }

  async loadValues() {
    this.values = this.about.values === null ? null : new Float64Array(await unpacked(this.about.values));
  }

  // The value of an element after the launch; null where it was not recorded.
  valueName(element) {
    return this.values === null ? null : String(Number(this.values[element].toPrecision(7)));
  }

  elementName(element) {
    const index = [];
    for (let axis = this.about.shape.length - 1, rest = element; axis >= 0; axis--) {
      index.unshift(rest % this.about.shape[axis]);
      rest = Math.floor(rest / this.about.shape[axis]);
    }
    return `${this.about.name}[${index.join(", ")}]`;
  }
}
