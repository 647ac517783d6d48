// The page: which launch, which moment, and what the reader points at. Its state is in the address, for links.

const data = JSON.parse(document.getElementById("data").textContent);
const $ = id => document.getElementById(id);
const number = new Intl.NumberFormat("en");
const plural = (n, one, many = `${one}s`) => `${number.format(n)} ${n === 1 ? one : many}`;

const view = { recording: null, pictures: [], palette: null, hovered: null, playing: null, drawn: null };

function element(tag, text, className) {
  const made = document.createElement(tag);
  if (text !== undefined) made.textContent = text;
  if (className) made.className = className;
  return made;
}

// -- choosing a launch

async function chooseLaunch(index) {
  stop();
  view.recording = await Recording.load(data.launches[index]);
  const { recording } = view, { launch } = recording;
  $("launch").value = String(index);
  $("time").max = String(recording.size);
  const used = new Set(recording.array);
  $("arrays").replaceChildren();
  view.pictures = launch.arrays.flatMap((about, i) => (used.has(i) || launch.violations.some(v => v.array === i) ? [card(about, i)] : []));
  fillBlocks();
  fillLegend();
  fillViolations();
  fillSummary();
  moveTo(recording.size);
  fitPictures();
}

function card(about, i) {
  const box = element("div", undefined, "card"), heading = element("h2", about.name);
  heading.append(element("small", `${about.dtype} (${about.shape.join(", ")})`), element("small", "", "counts"));
  const canvas = element("canvas"), reset = element("button", "whole array", "reset");
  reset.hidden = true;
  heading.append(reset);
  box.append(heading, canvas);
  $("arrays").append(box);
  const picture = new Picture(canvas, view.recording, i);
  picture.box = box;
  picture.counts = heading.querySelector(".counts");
  picture.reset = reset;
  if (picture.arrangement.wrapped) heading.firstElementChild.append(`, in rows of ${number.format(picture.arrangement.columns)}`);
  reset.addEventListener("click", () => { picture.showWhole(); drawSoon(); });
  listen(picture);
  return picture;
}

// All arrays are in sight where there is room; on narrow screens, which scroll, each is as wide as they allow.
function fitPictures() {
  const box = $("arrays"), across = getComputedStyle(box).gridTemplateColumns.split(" ").length;
  const down = Math.ceil(view.pictures.length / across);
  const narrow = matchMedia("(max-width: 900px)").matches;
  const height = narrow ? innerHeight * 0.4 : (box.clientHeight - 24 - 12 * (down - 1)) / down - 50;
  view.pictures.forEach(p => p.resize(Math.max(150, height)));
  drawNow(); // a canvas is empty when its size has changed
}

// What the colours mean in the present mode.
function fillLegend() {
  const { recording, palette } = view, mode = $("colour").value, css = c => `rgb(${c.join(" ")})`;
  const entries = [];
  if (mode === "kind") entries.push(["read", "var(--read)"], ["written", "var(--write)"], ["both", "var(--both)"], ["atomic", "var(--atomic)"]);
  else if (mode === "block") {
    const blocks = [...new Set(recording.block)].sort((a, b) => a - b);
    for (const b of blocks.slice(0, 6)) entries.push([recording.blockName(b), css(blockColour(b))]);
    entries.unshift(["last touched by block", null]);
    if (blocks.length > 6) entries.push([`and ${number.format(blocks.length - 6)} more`, null]);
  } else entries.push(["one access", css(mix(palette.empty, palette.kinds[4], 0.15))], ["the most", css(palette.kinds[4])]);
  entries.push(["padding", "hatch"], ["violation", "var(--bad)"]);
  $("legend").replaceChildren(...entries.map(([name, colour]) => {
    const item = element("span");
    if (colour !== null) {
      const swatch = element("i", undefined, colour === "hatch" ? "hatch" : "");
      if (colour !== "hatch") swatch.style.background = colour;
      item.append(swatch);
    }
    item.append(name);
    return item;
  }));
}

function fillBlocks() {
  const { recording } = view, blocks = [...new Set(recording.block)].sort((a, b) => a - b);
  const all = element("option", "all");
  all.value = "";
  $("block").replaceChildren(all, ...blocks.slice(0, 5000).map(b => {
    const option = element("option", recording.blockName(b));
    option.value = String(b);
    return option;
  }));
}

function fillSummary() {
  const { launch, size } = view.recording, wrong = launch.violations.length;
  const parts = [`grid (${launch.grid.join(", ")})`, plural(size, "access", "accesses")];
  if (launch.dropped) parts.push(`${number.format(launch.dropped)} more not recorded`);
  $("summary").replaceChildren(`${parts.join(" · ")} · `, element("span", wrong ? plural(wrong, "violation") : "no violation", wrong ? "bad" : ""));
}

// One entry for each kind of violation at each line; clicking goes through its occurrences.
function fillViolations() {
  const { launch } = view.recording, box = $("violations"), groups = new Map();
  for (const v of launch.violations) {
    const key = `${v.category} ${v.place}`;
    if (!groups.has(key)) groups.set(key, []);
    groups.get(key).push(v);
  }
  box.hidden = !launch.violations.length;
  box.replaceChildren(element("h2", plural(launch.violations.length, "violation"), "bad"));
  for (const group of groups.values()) {
    const button = element("button"), count = element("span"), text = element("p");
    let next = 0;
    const tell = v => {
      const where = v.block === null ? "" : ` · block (${v.block.join(", ")})`;
      count.textContent = ` line ${launch.places[v.place][0].line}${where}${group.length > 1 ? ` · ${next + 1} of ${group.length}` : ""}`;
      text.textContent = v.outside ? `${v.message}: ${v.outside}` : v.message;
      button.title = v.text;
    };
    tell(group[0]);
    next = -1;
    button.append(element("span", group[0].category, "bad"), count, text);
    button.addEventListener("click", () => {
      next = (next + 1) % group.length;
      tell(group[next]);
      goTo(group[next]);
    });
    box.append(button);
  }
}

function goTo(violation) {
  if (violation.event !== null) moveTo(violation.event + 1);
  const picture = view.pictures.find(p => p.number === violation.array);
  if (picture && violation.element !== null) picture.show(violation.element);
  showSource(violation.place);
  drawSoon();
}

// -- moments

function moveTo(moment) {
  const { recording } = view;
  recording.seek(Math.max(0, Math.min(recording.size, moment)));
  $("time").value = String(recording.now);
  view.hovered = null;
  $("tip").hidden = true;
  describeStep();
  drawSoon(true);
  const at = recording.now === recording.size ? "" : `&step=${recording.now}`;
  history.replaceState(null, "", `#launch=${$("launch").value}${at}&colour=${$("colour").value}`);
}

function onlyBlock() {
  return $("block").value === "" ? null : Number($("block").value);
}

// The next access, forward or backward, of the block that is looked at.
function step(direction) {
  const { recording } = view, block = onlyBlock();
  let moment = recording.now + direction;
  while (block !== null && moment > 0 && moment < recording.size && recording.block[moment - 1] !== block) moment += direction;
  moveTo(moment);
}

function currentEvent() {
  const { now, size } = view.recording;
  return now > 0 && now < size ? now - 1 : null;
}

function describeStep() {
  const { recording } = view, { launch, now, size } = recording, event = currentEvent(), rows = [];
  $("clock").textContent = `${number.format(now)} of ${number.format(size)}`;
  const shown = event ?? (now ? now - 1 : null);
  if (shown !== null) {
    const state = recording.arrays[recording.array[shown]];
    rows.push(["access", `${now === size && event === null ? "the last, " : ""}number ${number.format(shown + 1)}`]);
    rows.push(["block", recording.blockName(recording.block[shown])]);
    rows.push([KINDS[recording.kind[shown]], `${plural(recording.touched(shown), "element")} of ${state.about.name}`]);
    rows.push(["padding", recording.padding[shown] ? `${plural(recording.padding[shown], "element")} of the tile outside the array or masked off` : "none"]);
    const wrong = recording.violated.get(shown);
    if (wrong) rows.push(["violation", `${wrong.category}: ${wrong.message}`]);
    showSource(recording.place[shown]);
  } else {
    rows.push(["access", "none yet"]);
    showSource(size ? recording.place[0] : 0);
  }
  const table = element("table");
  for (const [name, text] of rows) {
    const row = element("tr");
    row.append(element("td", name), element("td", text, name === "violation" ? "bad" : ""));
    table.append(row);
  }
  $("step").replaceChildren(element("h2", launch.kernel), table);
}

function stop() {
  clearInterval(view.playing);
  view.playing = null;
  $("play").classList.remove("on");
}

function play() {
  if (view.playing !== null) return stop();
  const { recording } = view;
  if (recording.now === recording.size) moveTo(0);
  const stride = onlyBlock() === null ? Math.max(1, Math.round(recording.size / 400)) : 1;
  $("play").classList.add("on");
  view.playing = setInterval(() => {
    if (recording.now >= recording.size) stop();
    else if (stride === 1) step(1);
    else moveTo(recording.now + stride);
  }, 60);
}

// -- the source

const shownSource = { file: null, lines: [] };

function showSource(place) {
  const chain = view.recording.launch.places[place];
  if (!chain) return;
  const { file, line, column, end } = chain[0], box = $("source");
  if (shownSource.file !== file) {
    shownSource.file = file;
    const wrong = new Set(view.recording.launch.violations.map(v => view.recording.launch.places[v.place][0]).filter(p => p.file === file).map(p => p.line));
    const pre = element("pre");
    shownSource.lines = (data.sources[file] || "").split("\n").map((text, i) => {
      const made = element("span", undefined, wrong.has(i + 1) ? "line wrong" : "line");
      made.dataset.text = text;
      made.append(element("b", String(i + 1)), text);
      pre.append(made);
      return made;
    });
    box.replaceChildren(element("h2", ""), pre);
  }
  const calls = chain.slice(1).map(p => `${p.function}:${p.line}`);
  box.querySelector("h2").textContent = [`${file.split("/").pop()}:${line} in ${chain[0].function}`, ...calls].join(" ← ");
  for (const made of shownSource.lines) {
    if (!made.classList.contains("here")) continue;
    made.classList.remove("here");
    made.replaceChildren(made.firstChild, made.dataset.text);
  }
  const here = shownSource.lines[line - 1];
  if (!here) return;
  here.classList.add("here");
  const text = here.dataset.text, last = end === null ? text.length : end;
  here.replaceChildren(here.firstChild, text.slice(0, column), element("mark", text.slice(column, last)), text.slice(last));
  const pre = box.querySelector("pre"), top = here.offsetTop - pre.offsetTop;
  if (top < pre.scrollTop + 20 || top > pre.scrollTop + pre.clientHeight - 40) pre.scrollTop = top - pre.clientHeight / 3;
}

// -- drawing

function drawSoon(paint = false) {
  view.repaint = view.repaint || paint;
  if (view.drawn !== null) return;
  view.drawn = requestAnimationFrame(() => {
    view.drawn = null;
    drawNow();
  });
}

function drawNow() {
  draw(view.repaint);
  view.repaint = false;
}

function draw(paint) {
  const { recording, pictures, palette } = view, event = currentEvent();
  for (const picture of pictures) {
    if (paint) {
      picture.paint(palette, $("colour").value, event, onlyBlock());
      const touched = picture.state.last.reduce((n, e) => n + (e >= 0), 0);
      picture.counts.textContent = `${number.format(touched)} of ${plural(picture.state.size, "element")} touched`;
    }
    picture.reset.hidden = picture.zoom === 1;
    picture.box.classList.toggle("current", event !== null && recording.array[event] === picture.number);
    picture.draw(palette, event);
  }
  drawStrip();
}

// The accesses over time: a column each, or for several the worst and the last one.
function drawStrip() {
  const canvas = $("strip"), { recording, palette } = view, width = canvas.clientWidth || 800;
  canvas.width = width;
  const context = canvas.getContext("2d"), block = onlyBlock();
  const colours = [1, 2, 4].map(k => `rgb(${palette.kinds[k].join(" ")})`);
  for (let x = 0; x < width; x++) {
    const from = Math.floor(x * recording.size / width), to = Math.max(from + 1, Math.floor((x + 1) * recording.size / width));
    let kind = -1;
    for (let e = from; e < Math.min(to, recording.size); e++) {
      if (block === null || recording.block[e] === block) kind = Math.max(kind, recording.kind[e]);
    }
    if (kind < 0) continue;
    context.fillStyle = colours[kind];
    context.globalAlpha = from < recording.now ? 1 : 0.3;
    context.fillRect(x, 5, 1, 12);
  }
  context.globalAlpha = 1;
  context.fillStyle = palette.badName;
  for (const event of recording.violated.keys()) context.fillRect(Math.floor(event * width / recording.size) - 1, 0, 3, 22);
  context.fillStyle = palette.ink;
  context.fillRect(Math.min(width - 2, Math.floor(recording.now * width / Math.max(1, recording.size))), 0, 2, 22);
}

// -- pointing at elements

function listen(picture) {
  const { canvas } = picture;
  let dragged = null;
  canvas.addEventListener("pointerdown", event => {
    dragged = { x: event.clientX, y: event.clientY, moved: false };
    canvas.setPointerCapture(event.pointerId);
  });
  canvas.addEventListener("pointerup", event => {
    const click = dragged !== null && !dragged.moved;
    dragged = null;
    if (!click) return;
    const found = picture.elementAt(event);
    const last = found < 0 ? -1 : picture.state.last[found];
    if (last >= 0) moveTo(last + 1);
  });
  canvas.addEventListener("pointermove", event => {
    if (dragged !== null) {
      const [x, y] = [event.clientX - dragged.x, event.clientY - dragged.y];
      if (!dragged.moved && Math.hypot(x, y) < 4) return;
      dragged = { x: event.clientX, y: event.clientY, moved: true };
      picture.moveBy(x, y);
      drawSoon();
    }
    point(picture, event);
  });
  canvas.addEventListener("pointerleave", () => {
    $("tip").hidden = true;
    view.hovered = null;
    describeStep();
  });
  canvas.addEventListener("wheel", event => {
    event.preventDefault();
    picture.zoomAt(event, Math.exp(-event.deltaY / 300));
    drawSoon();
  }, { passive: false });
  canvas.addEventListener("dblclick", () => {
    picture.showWhole();
    drawSoon();
  });
}

function point(picture, event) {
  const tip = $("tip"), found = picture.elementAt(event);
  tip.hidden = found < 0;
  if (found < 0) return;
  tip.style.left = `${Math.min(event.clientX + 14, innerWidth - 300)}px`;
  tip.style.top = `${Math.min(event.clientY + 14, innerHeight - 150)}px`;
  if (view.hovered === `${picture.number}:${found}`) return;
  view.hovered = `${picture.number}:${found}`;
  tip.textContent = describeElement(picture, found);
  const last = picture.state.last[found];
  if (last >= 0) showSource(view.recording.place[last]);
}

function describeElement(picture, found) {
  const { recording } = view, { state } = picture, value = state.valueName(found);
  const lines = [value === null ? state.elementName(found) : `${state.elementName(found)} = ${value} after the launch`];
  for (const v of picture.marks) if (v.element === found) lines.push(`✗ ${v.category}: ${v.message}`);
  const events = recording.history(picture.number, found, 6);
  for (const e of events) {
    const line = recording.launch.places[recording.place[e]][0].line;
    lines.push(`${KINDS[recording.kind[e]]} by block ${recording.blockName(recording.block[e])}, access ${number.format(e + 1)}, line ${line}`);
  }
  if (!events.length) lines.push("not touched yet");
  if (state.counts[found] > events.length) lines.push(`… ${number.format(state.counts[found])} accesses in all`);
  return lines.join("\n");
}

// -- start

function start() {
  document.title = `${data.title} – tilewright view`;
  $("title").textContent = data.title;
  $("launch").replaceChildren(...data.launches.map((launch, i) => {
    const wrong = launch.violations.length ? ` (${plural(launch.violations.length, "violation")})` : "";
    const option = element("option", `${i + 1}. ${launch.kernel}${wrong}`);
    option.value = String(i);
    return option;
  }));
  view.palette = new Palette();
  $("launch").addEventListener("change", event => chooseLaunch(Number(event.target.value)));
  $("colour").addEventListener("change", () => { fillLegend(); moveTo(view.recording.now); });
  $("block").addEventListener("change", () => drawSoon(true));
  $("time").addEventListener("input", event => { stop(); moveTo(Number(event.target.value)); });
  $("strip").addEventListener("click", event => moveTo(Math.ceil(event.offsetX / $("strip").clientWidth * view.recording.size)));
  const actions = { first: () => moveTo(0), previous: () => step(-1), play, next: () => step(1), last: () => moveTo(view.recording.size) };
  for (const [name, action] of Object.entries(actions)) $(name).addEventListener("click", () => { if (name !== "play") stop(); action(); });
  const keys = { Home: "first", ArrowLeft: "previous", " ": "play", ArrowRight: "next", End: "last" };
  addEventListener("keydown", event => {
    if (event.target.tagName === "SELECT" || !(event.key in keys)) return;
    event.preventDefault();
    $(keys[event.key]).click();
  });
  new ResizeObserver(() => {
    if (view.recording !== null) fitPictures();
  }).observe($("arrays"));
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => { view.palette = new Palette(); drawSoon(true); });
  open(new URLSearchParams(location.hash.slice(1)));
}

async function open(wanted) {
  const first = data.launches.findIndex(launch => launch.violations.length);
  const launch = wanted.has("launch") ? Number(wanted.get("launch")) : Math.max(0, first);
  // The overview: who touched each element last; with violations, or at a step, how it was touched.
  const overview = first < 0 && !wanted.has("step");
  $("colour").value = wanted.get("colour") ?? (overview ? "block" : "kind");
  await chooseLaunch(Math.min(launch, data.launches.length - 1));
  if (wanted.has("step")) moveTo(Number(wanted.get("step")));
  if (wanted.has("violation")) $("violations").querySelectorAll("button")[Number(wanted.get("violation"))]?.click();
  drawNow();
  document.body.dataset.ready = "yes";
}

start();
