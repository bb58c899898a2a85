// The data that the views show.

const payload = JSON.parse(document.getElementById("payload").textContent);

// A language model or an encoder reads one text; other models read a source and write an output.
// A decoder-only translation model reads both sides as one text: then both are true.
const { isText, translates } = payload;
const KIND_NAMES = isText
  ? { encoder_self: "Self-attention", decoder_self: "Causal self-attention" }
  : {
      encoder_self: "Encoder self-attention",
      decoder_self: "Decoder self-attention",
      encoder_decoder: "Encoder–decoder attention",
    };
const SHORT_NAMES = isText
  ? KIND_NAMES
  : { encoder_self: "Encoder", decoder_self: "Decoder", encoder_decoder: "Encoder–decoder" };
// The object in Python whose method `attention` makes this page.
const MAKER = translates ? "translator" : "analyzer";

/** Return the values of all 65,536 float16 bit patterns. */
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

/** Return a function from a span [first, count] of the packed numbers to their values as float32. */
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

/** One kind of attention: weights [layer, head, query, key], and the queries and keys they are computed from. */
class Attention {
  #entry;
  #numbers;
  #read = new Map();

  constructor(kind, entry, rows, numbers) {
    const [queries, keys] = {
      encoder_self: [rows.source, rows.source],
      decoder_self: [rows.target, rows.target],
      encoder_decoder: [rows.predicted, rows.source],
    }[kind];
    this.kind = kind;
    this.name = KIND_NAMES[kind];
    this.queries = queries.tokens;
    this.keys = keys.tokens;
    this.layers = entry.layers;
    this.heads = entry.heads;
    this.width = entry.width;
    this.scale = entry.scale;
    this.causal = kind === "decoder_self";
    this.self = kind !== "encoder_decoder";
    this.hasBias = entry.bias !== null;
    this.#entry = entry;
    this.#numbers = numbers;
  }

  weight(layer, head, query, key) {
    return this.#pair("weights", layer, head, query, key);
  }

  bias(layer, head, query, key) {
    return this.#pair("bias", layer, head, query, key);
  }

  /** Return the mean weight of several heads. */
  mean(layer, heads, query, key) {
    return d3.mean(heads, (head) => this.weight(layer, head, query, key));
  }

  /** Return the query or key of one head at one position: `width` numbers. */
  vector(name, layer, head, position) {
    const tokens = name === "query" ? this.queries : this.keys;
    const start = ((layer * this.heads + head) * tokens.length + position) * this.width;
    return this.#values(name).subarray(start, start + this.width);
  }

  /** Return true if the query may attend to the key. */
  canAttend(query, key) {
    return !this.causal || key <= query;
  }

  statistics(layer, head) {
    return this.#entry.statistics[layer * this.heads + head];
  }

  #pair(name, layer, head, query, key) {
    if (!this.canAttend(query, key)) return 0;
    const values = this.#values(name);
    const map = layer * this.heads + head;
    if (this.causal) {
      const T = this.queries.length;
      return values[(map * T * (T + 1) + query * (query + 1)) / 2 + key];
    }
    return values[(map * this.queries.length + query) * this.keys.length + key];
  }

  #values(name) {
    if (!this.#read.has(name)) this.#read.set(name, this.#numbers(this.#entry[name]));
    return this.#read.get(name);
  }
}

/** Return weights between words: weights between tokens, summed over a word's keys, averaged over its queries. */
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
  separator: "punctuation, </s>",
  broad: "broad",
  mixed: "mixed",
};
const ROLE_NAMES_ACROSS = {
  ...ROLE_NAMES,
  previous: "before diagonal",
  next: "after diagonal",
  same: "diagonal",
};

/** Return the role of a head, its name, and the value that determines it, as text. */
function roleOf(attention, layer, head) {
  const { role, roleValue } = attention.statistics(layer, head);
  const isEvenness = role === "broad" || role === "mixed";
  return {
    role,
    name: (attention.self ? ROLE_NAMES : ROLE_NAMES_ACROSS)[role],
    value: isEvenness ? `evenness ${fixed(roleValue, 2)}` : percent(roleValue, 0),
  };
}

/** Format a share as a percentage. */
function percent(share, digits = 1) {
  return share === null || Number.isNaN(share) ? "–" : `${(100 * share).toFixed(digits)}%`;
}

/** Format a number with `digits` decimal places. */
function fixed(number, digits) {
  return number === null || !Number.isFinite(number) ? "–" : number.toFixed(digits).replace("-", "−");
}

/** Format a number with `digits` decimal places and its sign. */
function signed(number, digits) {
  const text = fixed(number, digits);
  return number > 0 && Number(number.toFixed(digits)) !== 0 ? `+${text}` : text;
}
