// The numbers behind the pictures.

const payload = JSON.parse(document.getElementById("payload").textContent);

const KIND_NAMES = {
  encoder_self: "Encoder self-attention",
  decoder_self: "Decoder self-attention",
  encoder_decoder: "Encoder–decoder attention",
};
const SHORT_NAMES = { encoder_self: "Encoder", decoder_self: "Decoder", encoder_decoder: "Encoder–decoder" };

/** The value of each of the 65,536 float16 numbers. */
function halfTable() {
  const table = new Float32Array(65536);
  for (let bits = 0; bits < 65536; bits++) {
    const exponent = (bits >> 10) & 31;
    const fraction = bits & 1023;
    const size =
      exponent === 0
        ? fraction * 2 ** -24
        : exponent === 31
          ? fraction
            ? NaN
            : Infinity
          : (1 + fraction / 1024) * 2 ** (exponent - 15);
    table[bits] = bits & 0x8000 ? -size : size;
  }
  return table;
}

/** A function that gives float32 for a place [first, count] of the packed numbers. */
async function unpack(packed) {
  const bytes = Uint8Array.from(atob(packed), (character) => character.charCodeAt(0));
  const inflated = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("deflate"));
  const all = new Uint8Array(await new Response(inflated).arrayBuffer());
  const table = halfTable();
  return ([first, count]) => {
    const values = new Float32Array(count);
    const high = 2 * first;
    const low = high + count;
    for (let i = 0; i < count; i++) values[i] = table[(all[high + i] << 8) | all[low + i]];
    return values;
  };
}

/** One kind of attention: weights [layer, head, query, key] and what they are computed from. */
class Attention {
  #described;
  #numbers;
  #read = new Map();

  constructor(kind, described, rows, numbers) {
    const [queries, keys] = {
      encoder_self: [rows.source, rows.source],
      decoder_self: [rows.target, rows.target],
      encoder_decoder: [rows.predicted, rows.source],
    }[kind];
    this.kind = kind;
    this.name = KIND_NAMES[kind];
    this.queries = queries.tokens;
    this.keys = keys.tokens;
    this.layers = described.layers;
    this.heads = described.heads;
    this.width = described.width;
    this.causal = kind === "decoder_self";
    this.self = kind !== "encoder_decoder";
    this.hasBias = described.bias !== null;
    this.#described = described;
    this.#numbers = numbers;
  }

  weight(layer, head, query, key) {
    return this.#pair("weights", layer, head, query, key);
  }

  bias(layer, head, query, key) {
    return this.#pair("bias", layer, head, query, key);
  }

  /** The mean weight of some heads. */
  mean(layer, heads, query, key) {
    return d3.mean(heads, (head) => this.weight(layer, head, query, key));
  }

  /** The query or key of one head at one position: `width` numbers. */
  vector(name, layer, head, position) {
    const tokens = name === "query" ? this.queries : this.keys;
    const start = ((layer * this.heads + head) * tokens.length + position) * this.width;
    return this.#values(name).subarray(start, start + this.width);
  }

  /** Whether the query may look at the key. */
  sees(query, key) {
    return !this.causal || key <= query;
  }

  statistics(layer, head) {
    return this.#described.statistics[layer * this.heads + head];
  }

  #pair(name, layer, head, query, key) {
    if (!this.sees(query, key)) return 0;
    const values = this.#values(name);
    const map = layer * this.heads + head;
    if (this.causal) {
      const T = this.queries.length;
      return values[(map * T * (T + 1) + query * (query + 1)) / 2 + key];
    }
    return values[(map * this.queries.length + query) * this.keys.length + key];
  }

  #values(name) {
    if (!this.#read.has(name)) this.#read.set(name, this.#numbers(this.#described[name]));
    return this.#read.get(name);
  }
}

/** From weights [query, key] of tokens those of words: summed over the keys of a word, averaged over its queries. */
function mergeWords(weight, queryStarts, queries, keyStarts, keys) {
  const ends = (starts, count) => [...starts.slice(1), count];
  const queryEnds = ends(queryStarts, queries);
  const keyEnds = ends(keyStarts, keys);
  return queryStarts.map((firstQuery, i) =>
    keyStarts.map((firstKey, j) =>
      d3.mean(d3.range(firstQuery, queryEnds[i]), (query) =>
        d3.sum(d3.range(firstKey, keyEnds[j]), (key) => weight(query, key)),
      ),
    ),
  );
}

const ROLE_NAMES = {
  previous: "previous token",
  next: "next token",
  same: "same token",
  separator: "punctuation, ends",
  broad: "broad",
  mixed: "mixed",
};
const ROLE_NAMES_ACROSS = {
  ...ROLE_NAMES,
  previous: "just behind",
  next: "just ahead",
  same: "same place",
};

/** What a head seems to do, and the figure that says so. */
function roleOf(attention, layer, head) {
  const { role, figure } = attention.statistics(layer, head);
  const even = role === "broad" || role === "mixed";
  return {
    role,
    name: (attention.self ? ROLE_NAMES : ROLE_NAMES_ACROSS)[role],
    figure: even ? `evenness ${fixed(figure, 2)}` : percent(figure, 0),
  };
}

/** A share as a percentage. */
function percent(share, digits = 1) {
  return share === null || Number.isNaN(share) ? "–" : `${(100 * share).toFixed(digits)}%`;
}

/** A number with so many digits after the point. */
function fixed(number, digits) {
  return number === null || !Number.isFinite(number) ? "–" : number.toFixed(digits).replace("-", "−");
}

/** The same with its sign, plus or minus. */
function signed(number, digits) {
  const text = fixed(number, digits);
  return number > 0 && Number(number.toFixed(digits)) !== 0 ? `+${text}` : text;
}
