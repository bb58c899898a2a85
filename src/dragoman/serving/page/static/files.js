// Text files: read, translated in parts, and given back.

import { announce, byId, element, sentenceOf } from "./elements.js";

// Characters of one request: progress is visible, and others are not kept waiting.
const PART = 4000;
// Files that are translated at a time, so that typing is not slowed down.
const AT_ONCE = 2;
// How often a part is sent again that the server refuses for the time being.
const TRIES = 20;

/** Return a line in pieces of at most `most` UTF-16 code units, cut after a sentence, a word, or else a character. */
function pieces(line, most) {
  const list = [];
  let rest = line;
  while (rest.length > most) {
    const start = rest.slice(0, most);
    const sentence = start.search(/[.!?。！？][^.!?。！？]*$/) + 1;
    const space = start.search(/\s\S*$/) + 1;
    // A pair of surrogates is one character.
    const character = /[\ud800-\udbff]$/.test(start) && most > 1 ? most - 1 : most;
    const length = sentence > most / 2 ? sentence : space || character;
    list.push(rest.slice(0, length));
    rest = rest.slice(length);
  }
  return [...list, rest];
}

/** Return the parts of a text, whole lines each if they are short enough; joined, they are the text. */
function parts(text, most) {
  const list = [""];
  for (const piece of text.split(/(?<=\n)/).flatMap((line) => pieces(line, most))) {
    if (list.at(-1) && list.at(-1).length + piece.length > most) list.push("");
    list[list.length - 1] += piece;
  }
  return list;
}

function nameFor(name, target) {
  const dot = name.lastIndexOf(".");
  return dot > 0 ? `${name.slice(0, dot)}.${target}${name.slice(dot)}` : `${name}.${target}.txt`;
}

/** Return the text of a file, or null if it is not a text in UTF-8. */
async function read(file) {
  const bytes = await file.arrayBuffer();
  try {
    const text = new TextDecoder("utf-8", { fatal: true, ignoreBOM: true }).decode(bytes);
    return text.includes("\0") ? null : text;
  } catch {
    return null;
  }
}

/** Wait for some seconds, or until the signal is aborted. */
function wait(seconds, signal) {
  return new Promise((resolve, reject) => {
    const timer = setTimeout(resolve, 1000 * seconds);
    signal.addEventListener("abort", () => {
      clearTimeout(timer);
      reject(signal.reason);
    });
  });
}

/** One file, and its row in the list. */
class TranslatedFile {
  constructor(file, { source, target, most, translate, nameOf }) {
    Object.assign(this, { file, source, target, most, translate, nameOf });
    this.abort = new AbortController();
    this.bar = element("progress", { max: 1, value: 0, "aria-label": `Progress of ${file.name}` });
    this.state = element("span", { className: "soft" }, "Waiting…");
    this.cancel = element("button", { type: "button", className: "quiet", "aria-label": `Cancel ${file.name}` }, "Cancel");
    this.cancel.addEventListener("click", () => {
      this.abort.abort();
      this.end("Cancelled.");
    });
    this.row = element("li", {}, element("bdi", { className: "name" }, file.name), this.bar, this.state, this.cancel);
  }

  end(message, link = null) {
    const hadFocus = this.cancel === document.activeElement;
    this.bar.remove();
    this.cancel.remove();
    this.state.textContent = sentenceOf(message);
    this.state.className = link ? "soft" : "flags";
    if (link) this.row.append(link);
    if (hadFocus) (link ?? byId("files-title")).focus();
    announce(`${this.file.name}: ${message}`);
  }

  async part(text) {
    const { signal } = this.abort;
    for (let tries = 0; ; tries += 1) {
      try {
        return await this.translate({ texts: [text], source: this.source, target: this.target }, signal);
      } catch (error) {
        if (!error.passes || tries === TRIES) throw error;
        this.state.textContent = "Waiting for the server…";
        await wait(error.retryAfter, signal);
        this.state.textContent = "Translating…";
      }
    }
  }

  async run() {
    const { signal } = this.abort;
    if (signal.aborted) return;
    this.state.textContent = "Translating…";
    try {
      const text = await read(this.file);
      if (text === null) return this.end("This is not a text file in UTF-8.");
      const list = parts(text, Math.min(PART, this.most));
      const done = [];
      for (const part of list) {
        const answer = await this.part(part);
        // The language is detected once, so that it is the same for all parts.
        if (this.source === "auto" && part.trim()) this.source = answer.source;
        if (this.source === this.target) return this.end(`The text is already ${this.nameOf(this.target)}.`);
        done.push(answer.text);
        this.bar.value = done.length / list.length;
      }
      const href = URL.createObjectURL(new Blob(done, { type: "text/plain;charset=utf-8" }));
      const download = nameFor(this.file.name, this.target);
      this.end("Done.", element("a", { href, download, className: "strong", "aria-label": `Download ${download}` }, "Download"));
    } catch (error) {
      if (!signal.aborted) this.end(error.message);
    }
  }
}

const waiting = [];
let running = 0;

async function runNext() {
  if (running === AT_ONCE || !waiting.length) return;
  running += 1;
  await waiting.shift().run();
  running -= 1;
  runNext();
}

/**
 * Translate files, a few at a time, and offer the results for download.
 *
 * `translate(body, signal)` returns the translation of a text; `most` is the number of characters of a request.
 */
export function translateFiles(files, options) {
  for (const file of files) {
    const translated = new TranslatedFile(file, options);
    byId("files").hidden = false;
    byId("files-list").prepend(translated.row);
    waiting.push(translated);
    runNext();
  }
}
