// The data of the page: pictures, and weights of attention between positions.

const payload = JSON.parse(document.getElementById("payload").textContent);

/** Return bytes that were compressed by zlib and encoded in base64. */
async function unpack(packed) {
  const bytes = Uint8Array.from(atob(packed), (character) => character.charCodeAt(0));
  const inflated = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("deflate"));
  return new Uint8Array(await new Response(inflated).arrayBuffer());
}

/** Attention of one layer over one picture. A class token is the query after the last position. */
class Layer {
  #largest;
  #shares;

  static async read(entry) {
    const layer = new Layer();
    const bytes = await unpack(entry.weights);
    layer.name = entry.name;
    layer.heads = entry.heads;
    layer.grid = entry.grid;
    layer.keyGrid = entry.keyGrid;
    layer.positions = entry.grid[0] * entry.grid[1];
    layer.keys = entry.keyGrid[0] * entry.keyGrid[1];
    layer.classToken = entry.classToken;
    layer.queries = layer.positions + (entry.classToken ? 1 : 0);
    // The largest weight of each query as float32, then each weight as a share of it, 0 to 255.
    const count = layer.heads * layer.queries;
    const view = new DataView(bytes.buffer);
    layer.#largest = Float32Array.from({ length: count }, (_, i) => view.getFloat32(4 * i, true));
    layer.#shares = bytes.subarray(4 * count);
    return layer;
  }

  weight(head, query, key) {
    const row = head * this.queries + query;
    return (this.#largest[row] * this.#shares[row * this.keys + key]) / 255;
  }

  /** Return the weights from a query to all keys; their mean over the heads if `head` is null. */
  from(head, query) {
    return this.#mean(head, this.keys, (each, key) => this.weight(each, query, key));
  }

  /** Return the weights from all positions to a key; their mean over the heads if `head` is null. */
  to(head, key) {
    return this.#mean(head, this.positions, (each, query) => this.weight(each, query, key));
  }

  #mean(head, count, weight) {
    const heads = head === null ? [...Array(this.heads).keys()] : [head];
    return Float32Array.from({ length: count }, (_, i) => {
      let sum = 0;
      for (const each of heads) sum += weight(each, i);
      return sum / heads.length;
    });
  }
}

const layers = new Map();

/** Return a promise of a layer, which is unpacked when it is first used. */
function layerOf(picture, layer) {
  const name = `${picture} ${layer}`;
  if (!layers.has(name)) layers.set(name, Layer.read(payload.pictures[picture].layers[layer]));
  return layers.get(name);
}

/** Return the position with the largest weight. */
const strongest = (weights) => weights.reduce((best, weight, i) => (weight > weights[best] ? i : best), 0);

/** Format a share as a percentage. */
const percent = (share) => `${(100 * share).toFixed(1)}%`;
