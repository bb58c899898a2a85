// The picture, the map over it, and what is written beside it.

const element = (id) => document.getElementById(id);
const map = element("map");
const overlay = element("overlay");

// `position` is kept until the next click or key; `hovered` is shown in its place while the pointer is over the map.
const state = { picture: 0, layer: 0, head: null, reversed: false, classToken: false, position: [0, 0], hovered: null };
let current = null;

/** Return the colour of a share of the largest weight, 0 to 1. */
function heatColour(share) {
  const at = Math.min(Math.max(share, 0), 1) * (payload.heat.length - 1);
  const low = Math.floor(at);
  const high = Math.min(low + 1, payload.heat.length - 1);
  return payload.heat[low].map((value, i) => value + (at - low) * (payload.heat[high][i] - value));
}

/** Return the grid of the positions that the pointer selects, and that of the map that is shown: [rows, columns]. */
const asked = () => (state.reversed ? current.keyGrid : current.grid);
const shown = () => (state.reversed ? current.grid : current.keyGrid);

const isClassToken = () => state.classToken && state.hovered === null;

/** Return the position of which the attention is shown, within the grid of this layer. */
function position() {
  const [row, column] = state.hovered ?? state.position;
  const [rows, columns] = asked();
  return [Math.min(row, rows - 1), Math.min(column, columns - 1)];
}

/** Return the weights that are shown, for one head or, if it is null, their mean. */
function weightsOf(head) {
  if (isClassToken()) return current.from(head, current.positions);
  const [row, column] = position();
  const index = row * asked()[1] + column;
  return state.reversed ? current.to(head, index) : current.from(head, index);
}

/** Draw weights as one pixel for each position; `opacity` maps a weight to 0 to 1. */
function drawCells(canvas, weights, opacity) {
  const [rows, columns] = shown();
  canvas.width = columns;
  canvas.height = rows;
  const context = canvas.getContext("2d");
  const image = context.createImageData(columns, rows);
  const largest = weights[strongest(weights)] || 1;
  weights.forEach((weight, i) => {
    const share = weight / largest;
    image.data.set([...heatColour(share), 255 * opacity(weight)].map(Math.round), 4 * i);
  });
  context.putImageData(image, 0, 0);
}

function drawOverlay(weights) {
  const strength = Number(element("strength").value) / 100;
  const ratio = window.devicePixelRatio || 1;
  const { clientWidth: width, clientHeight: height } = map;
  overlay.width = Math.max(1, Math.round(width * ratio));
  overlay.height = Math.max(1, Math.round(height * ratio));
  const context = overlay.getContext("2d");
  context.scale(ratio, ratio);
  element("picture").style.filter = `grayscale(${strength})`;
  context.fillStyle = `rgb(0 0 0 / ${0.6 * strength})`;
  context.fillRect(0, 0, width, height);
  const cells = document.createElement("canvas");
  const smallest = weights.reduce((least, weight) => Math.min(least, weight), Infinity);
  const range = weights[strongest(weights)] - smallest || 1;
  // The picture is visible under the smallest weights, also if all are similar. The square root makes weights of a
  // tenth visible beside a weight of one.
  drawCells(cells, weights, (weight) => Math.sqrt((weight - smallest) / range) * strength);
  context.imageSmoothingEnabled = element("smooth").checked;
  context.imageSmoothingQuality = "high";
  context.drawImage(cells, 0, 0, width, height);
  if (isClassToken()) return;
  const [row, column] = position();
  const [rows, columns] = asked();
  const cell = [width / columns, height / rows];
  // A mark of at least 9 pixels on each side around the centre of the position.
  const size = cell.map((side) => Math.max(side, 9));
  const corner = [(column + 0.5) * cell[0] - size[0] / 2, (row + 0.5) * cell[1] - size[1] / 2];
  for (const [colour, line] of [
    ["#000", 4],
    ["#fff", 2],
  ]) {
    context.strokeStyle = colour;
    context.lineWidth = line;
    context.strokeRect(...corner, ...size);
  }
}

const placeName = (index, columns) => `row ${Math.floor(index / columns) + 1}, column ${(index % columns) + 1}`;

/** Return the name of the position, and how it is related to the positions that are listed. */
function sentence() {
  if (isClassToken()) return "The class token attends most to";
  const [row, column] = position();
  const name = `Row ${row + 1}, column ${column + 1}`;
  return state.reversed ? `${name} is attended to most from` : `${name} attends most to`;
}

/** Return a remark about weight on something other than positions, such as the class token; bytes are not exact. */
const rest = (total) => (total > 0.98 ? "" : `, which have ${percent(total)} of the weight together`);

/** Write the three largest weights, and over how many positions the weights are spread. */
function writeReadout(weights) {
  const columns = shown()[1];
  const best = [...weights.keys()].sort((a, b) => weights[b] - weights[a]).slice(0, 3);
  element("readout").textContent = sentence();
  element("strongest").replaceChildren(
    ...best.map((index) => {
      const item = document.createElement("li");
      const bar = document.createElement("span");
      bar.className = "bar";
      bar.style.width = `${(100 * weights[index]) / (weights[best[0]] || 1)}%`;
      const share = document.createElement("span");
      share.className = "share";
      share.textContent = percent(weights[index]);
      const name = document.createElement("span");
      name.textContent = placeName(index, columns);
      item.append(name, share, bar);
      return item;
    }),
  );
  element("largest").textContent = percent(weights[best[0]]);
  const total = weights.reduce((sum, weight) => sum + weight, 0);
  let entropy = 0;
  for (const weight of weights) if (weight > 0) entropy -= (weight / total) * Math.log(weight / total);
  // The exponential of the entropy is the number of positions of equal weight that have the same entropy.
  element("spread").textContent = state.reversed
    ? "Weights from different positions do not sum to 100%."
    : `Spread over about ${Math.max(1, Math.round(Math.exp(entropy)))} of ${weights.length} positions${rest(total)}.`;
}

function drawHeads() {
  const maps = element("head").querySelectorAll("canvas");
  [null, ...Array(current.heads).keys()].forEach((head, i) => {
    if (maps[i]) drawCells(maps[i], weightsOf(head), () => 1);
  });
}

function refresh() {
  if (current === null) return;
  const weights = weightsOf(state.head);
  drawOverlay(weights);
  drawHeads();
  writeReadout(weights);
  element("class-token").setAttribute("aria-pressed", String(state.classToken));
  const [row, column] = position();
  map.setAttribute("aria-label", isClassToken() ? "Class token" : `Position: row ${row + 1}, column ${column + 1}`);
}

/** Announce the attention of the position to screen readers; not while a pointer moves. */
function announce() {
  const items = [...element("strongest").children].map((item) => [...item.children].map((part) => part.textContent));
  element("announcement").textContent = `${sentence()} ${items.map(([name, share]) => `${name}: ${share}`).join("; ")}`;
}

/** Show a layer of a picture, and the controls for its heads. */
async function openLayer(picture, layer) {
  map.setAttribute("aria-busy", "true");
  const read = await layerOf(picture, layer);
  // Another one was opened in the meantime.
  if (state.picture !== picture || state.layer !== layer) return;
  const first = current === null;
  current = read;
  if (first) state.position = [Math.floor((read.grid[0] - 1) / 2), Math.floor((read.grid[1] - 1) / 2)];
  if (state.head !== null && state.head >= read.heads) state.head = null;
  if (!read.classToken) state.classToken = false;
  element("class-token").hidden = !read.classToken;
  const withMap = (text) => (button) => {
    const canvas = document.createElement("canvas");
    canvas.style.aspectRatio = String(payload.pictures[picture].width / payload.pictures[picture].height);
    button.append(canvas, text);
  };
  // The mean of one head is this head.
  const heads = [{ value: null, name: "Mean of all heads", fill: withMap("mean") }];
  for (let head = 0; read.heads > 1 && head < read.heads; head++) {
    heads.push({ value: head, name: `Head ${head + 1}`, fill: withMap(String(head + 1)) });
  }
  radioGroup(element("head"), "Head", heads, state.head, (head) => {
    state.head = head;
    refresh();
  });
  refresh();
  map.removeAttribute("aria-busy");
}

function openPicture(picture) {
  const entry = payload.pictures[picture];
  state.picture = picture;
  state.hovered = null;
  state.layer = Math.min(state.layer, entry.layers.length - 1);
  const image = element("picture");
  image.src = entry.png;
  image.width = entry.width;
  image.height = entry.height;
  image.alt = entry.label;
  // The whole picture is visible, whatever its shape.
  map.style.maxWidth = `max(160px, ${(70 * entry.width) / entry.height}vh)`;
  element("label").textContent = entry.label;
  const options = entry.layers.map((layer, i) => ({ value: i, text: layer.name }));
  radioGroup(element("layer"), "Layer", options, state.layer, (layer) => {
    state.layer = layer;
    openLayer(state.picture, layer);
  });
  openLayer(picture, state.layer);
}

/** Return the position under the pointer. */
function pointed(event) {
  const box = map.getBoundingClientRect();
  const [rows, columns] = asked();
  const within = (share, count) => Math.min(Math.max(Math.floor(share * count), 0), count - 1);
  return [
    within((event.clientY - box.top) / box.height, rows),
    within((event.clientX - box.left) / box.width, columns),
  ];
}

function listen() {
  map.addEventListener("pointermove", (event) => {
    if (current === null || event.pointerType === "touch") return;
    state.hovered = pointed(event);
    refresh();
  });
  map.addEventListener("pointerleave", () => {
    state.hovered = null;
    refresh();
  });
  map.addEventListener("click", (event) => {
    if (current === null) return;
    state.position = pointed(event);
    state.classToken = false;
    refresh();
  });
  map.addEventListener("keydown", (event) => {
    if (current === null || event.altKey || event.ctrlKey || event.metaKey) return;
    const [rows, columns] = asked();
    const [row, column] = position();
    const to = {
      ArrowUp: [row - 1, column],
      ArrowDown: [row + 1, column],
      ArrowLeft: [row, column - 1],
      ArrowRight: [row, column + 1],
      Home: [row, 0],
      End: [row, columns - 1],
      PageUp: [0, column],
      PageDown: [rows - 1, column],
    }[event.key];
    if (to === undefined) return;
    event.preventDefault();
    state.position = [Math.min(Math.max(to[0], 0), rows - 1), Math.min(Math.max(to[1], 0), columns - 1)];
    state.hovered = null;
    state.classToken = false;
    refresh();
    announce();
  });
  element("class-token").addEventListener("click", () => {
    state.classToken = !state.classToken;
    refresh();
    announce();
  });
  for (const id of ["strength", "smooth"]) element(id).addEventListener("input", refresh);
  // The map is drawn for the current width of the picture.
  new ResizeObserver(() => requestAnimationFrame(refresh)).observe(map);
}

function start() {
  const scale = element("scale").getContext("2d");
  for (let x = 0; x < 256; x++) {
    scale.fillStyle = `rgb(${heatColour(x / 255).join(" ")})`;
    scale.fillRect(x, 0, 1, 1);
  }
  const thumbnails = payload.pictures.map((entry, i) => ({
    value: i,
    name: entry.label || `Picture ${i + 1}`,
    fill: (button) => {
      const image = document.createElement("img");
      image.src = entry.png;
      image.alt = "";
      button.append(image);
      button.title = entry.label;
    },
  }));
  radioGroup(element("thumbnails"), "Picture", thumbnails, 0, openPicture);
  const directions = [
    { value: false, text: "Where it attends" },
    { value: true, text: "What attends to it" },
  ];
  radioGroup(element("direction"), "Position", directions, false, (reversed) => {
    state.reversed = reversed;
    if (reversed) state.classToken = false;
    refresh();
  });
  listen();
  openPicture(0);
}

if (typeof DecompressionStream === "undefined") {
  element("note").textContent = "This browser cannot read the data in this page: it needs DecompressionStream (since 2023).";
} else {
  start();
}
