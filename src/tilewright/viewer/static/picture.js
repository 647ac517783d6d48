// One array as a picture: a pixel for each element, drawn scaled, zoomed and moved.

const GAP = 2;
const LINE = 512; // elements of a vector that are drawn as one line
const MARGIN = 0.06; // of the picture, around it, for tiles that reach outside
const FLATTEST = 0.4; // height of a picture, in its width, up to which low rows are drawn higher
const ROW = 14, ALL = 130; // pixels: neither rows nor pictures are made higher than this

// Where elements lie: rows of the last axis; planes, or parts of a tall matrix, beside each other.
class Arrangement {
  constructor(shape) {
    const size = shape.reduce((n, m) => n * m, 1);
    if (shape.length <= 1) {
      this.columns = size <= LINE ? Math.max(1, size) : 2 ** Math.round(Math.log2(Math.sqrt(size * 1.5)));
    } else {
      this.columns = shape[shape.length - 1];
    }
    this.wrapped = shape.length <= 1 && size > this.columns;
    this.rows = Math.max(1, Math.ceil(size / Math.max(1, this.columns)));
    this.height = shape.length > 2 ? shape[shape.length - 2] : this.rows;
    if (shape.length === 2 && this.rows > 4 * this.columns && this.rows > 64) {
      this.height = Math.min(this.rows, 2 ** Math.ceil(Math.log2(Math.sqrt(this.rows * this.columns / 2))));
    }
    const panels = Math.ceil(this.rows / Math.max(1, this.height));
    this.across = Math.max(1, Math.min(panels, Math.round(Math.sqrt(panels * 2 * this.height / this.columns))));
    const down = Math.ceil(panels / this.across);
    this.pixelsAcross = this.across * (this.columns + GAP) - GAP;
    this.pixelsDown = down * (this.height + GAP) - GAP;
    this.size = size;
  }

  place(element) {
    const row = Math.floor(element / this.columns), panel = Math.floor(row / this.height);
    return [
      (panel % this.across) * (this.columns + GAP) + element % this.columns,
      Math.floor(panel / this.across) * (this.height + GAP) + row % this.height,
    ];
  }

  element(x, y) {
    const panelX = Math.floor(x / (this.columns + GAP)), panelY = Math.floor(y / (this.height + GAP));
    const column = x - panelX * (this.columns + GAP), row = y - panelY * (this.height + GAP);
    if (x < 0 || y < 0 || column >= this.columns || row >= this.height || panelX >= this.across) return -1;
    const element = ((panelY * this.across + panelX) * this.height + row) * this.columns + column;
    return element < this.size ? element : -1;
  }
}

function rgb(css) {
  const n = parseInt(css.trim().slice(1), 16);
  return [n >> 16, (n >> 8) & 255, n & 255];
}

function word([r, g, b]) {
  return (255 << 24 | b << 16 | g << 8 | r) >>> 0;
}

function mix(a, b, share) {
  return a.map((x, i) => Math.round(x * (1 - share) + b[i] * share));
}

// Colours that people with any kind of colour vision tell apart (Okabe and Ito, 2008), lighter and darker in turns.
const BLOCK_COLOURS = ["#0072b2", "#e69f00", "#009e73", "#cc79a7", "#56b4e9", "#d55e00", "#f0e442"].map(rgb);

function blockColour(block) {
  const colour = BLOCK_COLOURS[block % 7], turn = Math.floor(block / 7) % 3;
  return turn === 0 ? colour : mix(colour, turn === 1 ? [255, 255, 255] : [0, 0, 0], 0.35);
}

class Palette {
  constructor() {
    const style = getComputedStyle(document.documentElement);
    const named = name => rgb(style.getPropertyValue(`--${name}`));
    this.empty = named("void");
    this.panel = named("panel");
    this.ink = style.getPropertyValue("--ink");
    this.bad = named("bad");
    this.badName = style.getPropertyValue("--bad");
    this.writeName = style.getPropertyValue("--write");
    const [read, write, atomic, both] = ["read", "write", "atomic", "both"].map(named);
    this.kinds = [this.empty, read, write, both, atomic, atomic, atomic, atomic];
  }
}

class Picture {
  constructor(canvas, recording, number) {
    this.canvas = canvas;
    this.recording = recording;
    this.number = number;
    this.state = recording.arrays[number];
    this.arrangement = new Arrangement(this.state.about.shape);
    this.image = document.createElement("canvas");
    this.image.width = Math.max(1, this.arrangement.pixelsAcross);
    this.image.height = Math.max(1, this.arrangement.pixelsDown);
    this.zoom = 1;
    this.origin = [0, 0];
    this.marks = recording.launch.violations.filter(v => v.array === number && v.element !== null);
  }

  // Fit the canvas into its card, which may be `most` pixels high.
  resize(most) {
    const width = this.canvas.clientWidth || 340, ratio = window.devicePixelRatio || 1;
    const across = this.image.width * (1 + MARGIN), down = this.image.height * (1 + MARGIN);
    this.stretch = Math.max(1, Math.min(FLATTEST * across / down, Math.min(ROW, ALL / down) * across / width));
    const height = Math.round(Math.max(28, Math.min(most, width * down * this.stretch / across)));
    this.canvas.style.height = `${height}px`;
    this.canvas.width = Math.round(width * ratio);
    this.canvas.height = Math.round(height * ratio);
    this.fit = Math.min(this.canvas.width / across, this.canvas.height / down / this.stretch);
  }

  get scale() {
    return this.fit * this.zoom;
  }

  get scales() {
    return [this.scale, this.scale * this.stretch];
  }

  // Where the point `at` of axis `k`, in elements, is on the canvas.
  onCanvas(at, k) {
    return (at - this.origin[k]) * this.scales[k];
  }

  // Compute the colours of all elements at the present moment; `current` is the access to point out.
  paint(palette, mode, current, onlyBlock) {
    const { last, kinds, counts } = this.state, { arrangement: a, recording } = this;
    const context = this.image.getContext("2d"), pixels = context.createImageData(this.image.width, this.image.height);
    const words = new Uint32Array(pixels.data.buffer);
    const empty = word(palette.empty), byKind = palette.kinds.map(word), cache = new Map();
    const top = mode === "count" ? counts.reduce((n, m) => Math.max(n, m), 1) : 1;
    const colour = e => {
      if (last[e] < 0) return empty;
      if (mode === "kind") return byKind[kinds[e]];
      const key = mode === "block" ? recording.block[last[e]] : counts[e];
      let found = cache.get(key);
      if (found === undefined) {
        const heat = 0.15 + 0.85 * Math.log1p(key) / Math.log1p(top);
        found = word(mode === "block" ? blockColour(key) : mix(palette.empty, palette.kinds[4], heat));
        cache.set(key, found);
      }
      return found;
    };
    const faded = new Map();
    const fade = w => {
      let found = faded.get(w);
      if (found === undefined) {
        found = word(mix([w & 255, (w >> 8) & 255, (w >> 16) & 255], palette.panel, 0.55));
        faded.set(w, found);
      }
      return found;
    };
    for (let row = 0, e = 0; row < a.rows; row++) {
      const [x, y] = a.place(row * a.columns), end = Math.min(a.size, e + a.columns);
      for (let at = y * this.image.width + x; e < end; e++, at++) {
        let w = colour(e);
        if (current !== null || onlyBlock !== null) w = last[e] < 0 ? w : fade(w);
        words[at] = w;
      }
    }
    const bright = event => recording.runs(event, (from, to) => {
      for (let e = from; e < to; e++) {
        const [x, y] = a.place(e);
        words[y * this.image.width + x] = mode === "kind" ? byKind[1 << recording.kind[event]] : colour(e);
      }
    });
    if (onlyBlock !== null) {
      for (let e = 0; e < recording.now; e++) if (recording.array[e] === this.number && recording.block[e] === onlyBlock) bright(e);
    } else if (current !== null && recording.array[current] === this.number) {
      bright(current);
    }
    for (const mark of this.marks) {
      if (mark.event === null || mark.event < recording.now) {
        const [x, y] = a.place(mark.element);
        words[y * this.image.width + x] = word(palette.bad);
      }
    }
    context.putImageData(pixels, 0, 0);
  }

  // The tile of the access `event` that reaches beyond the end of a matrix, as [x, y, width, height], or null.
  overhang(event) {
    const { recording: r, arrangement: a } = this;
    if (r.array[event] !== this.number || !r.padding[event] || a.rows > a.height || a.wrapped) return null;
    const first = r.group[event], end = event + 1 < r.size ? r.group[event + 1] : r.start.length;
    if (end !== first + 1 || r.length[first] > a.columns) return null;
    const [x, y] = a.place(r.start[first]), width = r.length[first], height = r.count[first];
    if (height > 1 && r.step[first] !== a.columns) return null;
    for (let w = 2 ** Math.ceil(Math.log2(width)); w <= r.padding[event] + width * height; w *= 2) {
      const h = (r.padding[event] + width * height) / w;
      const beyond = (w === width || x + width === a.columns) && (h === height || y + height === a.rows);
      if (h >= height && Number.isInteger(h) && beyond) return [x, y, w, h];
    }
    return null;
  }

  drawOverhang(context, palette, [x, y, width, height]) {
    const { arrangement: a } = this, [left, top] = [this.onCanvas(x, 0), this.onCanvas(y, 1)];
    const [across, down] = [width * this.scales[0], height * this.scales[1]];
    context.save();
    context.beginPath();
    context.rect(left, top, across, down);
    context.rect(this.onCanvas(0, 0), this.onCanvas(0, 1), a.columns * this.scales[0], a.rows * this.scales[1]);
    context.clip("evenodd");
    context.beginPath();
    context.rect(left, top, across, down);
    context.clip();
    context.strokeStyle = palette.writeName;
    context.lineWidth = 1.5;
    context.beginPath();
    for (let d = 0; d < across + down; d += 6) {
      context.moveTo(left + d, top);
      context.lineTo(left + d - down, top + down);
    }
    context.stroke();
    context.restore();
    context.strokeStyle = palette.writeName;
    context.lineWidth = 1.5;
    context.strokeRect(left, top, across, down);
  }

  draw(palette, current) {
    const context = this.canvas.getContext("2d"), { scale, image } = this, [across, down] = this.scales;
    context.setTransform(1, 0, 0, 1, 0, 0);
    context.clearRect(0, 0, this.canvas.width, this.canvas.height);
    context.imageSmoothingEnabled = down < 1;
    context.setTransform(across, 0, 0, down, this.onCanvas(0, 0), this.onCanvas(0, 1));
    context.drawImage(image, 0, 0);
    context.setTransform(1, 0, 0, 1, 0, 0);
    const overhang = current === null ? null : this.overhang(current);
    if (overhang !== null) this.drawOverhang(context, palette, overhang);
    if (scale >= 7) this.drawGrid(context);
    if (scale >= 26) this.drawNames(context, palette);
    context.strokeStyle = palette.badName;
    context.lineWidth = 2 * (window.devicePixelRatio || 1);
    for (const mark of this.marks) {
      if (mark.event !== null && mark.event >= this.recording.now) continue;
      const [x, y] = this.arrangement.place(mark.element);
      context.beginPath();
      if (scale < 14) context.arc(this.onCanvas(x + 0.5, 0), this.onCanvas(y + 0.5, 1), Math.max(8, scale), 0, 7);
      else context.rect(this.onCanvas(x, 0), this.onCanvas(y, 1), across, down);
      context.stroke();
    }
  }

  drawGrid(context) {
    context.strokeStyle = "rgba(128, 128, 128, 0.35)";
    context.lineWidth = 1;
    context.beginPath();
    for (let x = Math.ceil(this.origin[0]); x <= this.image.width; x++) {
      const at = Math.round(this.onCanvas(x, 0)) + 0.5;
      if (at > this.canvas.width) break;
      context.moveTo(at, 0);
      context.lineTo(at, Math.min(this.canvas.height, this.onCanvas(this.image.height, 1)));
    }
    for (let y = Math.ceil(this.origin[1]); y <= this.image.height; y++) {
      const at = Math.round(this.onCanvas(y, 1)) + 0.5;
      if (at > this.canvas.height) break;
      context.moveTo(0, at);
      context.lineTo(Math.min(this.canvas.width, this.onCanvas(this.image.width, 0)), at);
    }
    context.stroke();
  }

  // The block that touched each element last, where there is room to write it.
  drawNames(context, palette) {
    const { scale, origin, recording } = this;
    context.fillStyle = palette.ink;
    context.textAlign = "center";
    context.textBaseline = "middle";
    context.font = `${Math.min(13, scale / 3)}px system-ui, sans-serif`;
    const flat = recording.launch.grid[1] * recording.launch.grid[2] === 1;
    for (let y = Math.max(0, Math.floor(origin[1])); y < Math.min(this.image.height, origin[1] + this.canvas.height / this.scales[1]); y++) {
      for (let x = Math.max(0, Math.floor(origin[0])); x < Math.min(this.image.width, origin[0] + this.canvas.width / scale); x++) {
        const element = this.arrangement.element(x, y);
        if (element < 0 || this.state.last[element] < 0) continue;
        const block = recording.block[this.state.last[element]];
        const name = flat ? String(block) : recording.blockIndex(block).join(",");
        context.fillText(name, this.onCanvas(x + 0.5, 0), this.onCanvas(y + 0.5, 1), scale - 2);
      }
    }
  }

  elementAt(event) {
    const box = this.canvas.getBoundingClientRect(), ratio = this.canvas.width / box.width;
    const x = (event.clientX - box.left) * ratio / this.scales[0] + this.origin[0];
    const y = (event.clientY - box.top) * ratio / this.scales[1] + this.origin[1];
    return this.arrangement.element(Math.floor(x), Math.floor(y));
  }

  zoomAt(event, factor) {
    const box = this.canvas.getBoundingClientRect(), ratio = this.canvas.width / box.width;
    const [x, y] = [(event.clientX - box.left) * ratio, (event.clientY - box.top) * ratio];
    const before = this.scales;
    this.zoom = Math.max(1, Math.min(64 / Math.min(this.fit, 1) , this.zoom * factor));
    this.origin = [x, y].map((at, k) => this.origin[k] + at / before[k] - at / this.scales[k]);
    this.keepInside();
  }

  moveBy(x, y) {
    const ratio = this.canvas.width / this.canvas.getBoundingClientRect().width;
    this.origin = [x, y].map((by, k) => this.origin[k] - by * ratio / this.scales[k]);
    this.keepInside();
  }

  showWhole() {
    this.zoom = 1;
    this.origin = [0, 0];
  }

  show(element) {
    const [x, y] = this.arrangement.place(element);
    this.zoom = Math.max(this.zoom, 12 / this.fit);
    this.origin = [x - this.canvas.width / this.scales[0] / 2, y - this.canvas.height / this.scales[1] / 2];
    this.keepInside();
  }

  keepInside() {
    const inside = (k, image, canvas) =>
      Math.max(0, Math.min(this.origin[k], image * (1 + MARGIN) - Math.min(image * (1 + MARGIN), canvas / this.scales[k])));
    this.origin = [inside(0, this.image.width, this.canvas.width), inside(1, this.image.height, this.canvas.height)];
  }
}
