// The translation as sentences, which can be selected and replaced.

import { element } from "./elements.js";

// A sentence is marked as uncertain below this confidence, or, if its model was not calibrated, below this score
// (log-probability divided by the length penalty). Both were chosen with benchmarks/confidence.py.
const LEAST_CONFIDENCE = 0.2;
const LOWEST_SCORE = -2.5;

const FLAGS = {
  truncated: "The end may be missing.",
  cut: "The sentence was too long, and was translated in segments.",
  copied: "Part of the sentence was copied without translation.",
  too_long: "The sentence was too long, and was copied.",
  invalid_utf8: "Unreadable characters were replaced.",
};
const GUARDS = {
  greedy: "The first result repeated itself, and was replaced by a simpler search.",
  source: "No good translation was found; the source was copied.",
};

/** Return what a reader should know about a sentence, as lines of text. */
export function remarks(sentence) {
  const list = Object.keys(FLAGS).filter((name) => sentence[name]).map((name) => FLAGS[name]);
  if (sentence.guarded) list.push(GUARDS[sentence.guarded]);
  if (isCalibrated(sentence)) {
    if (sentence.confidence < LEAST_CONFIDENCE) list.push(`Uncertain: confidence ${percentage(sentence)}.`);
  } else if (sentence.score < LOWEST_SCORE) {
    list.push(`Uncertain: score ${sentence.score.toFixed(2).replace("-", "−")}.`);
  }
  return list;
}

export function isCalibrated(sentence) {
  return typeof sentence.confidence === "number";
}

/** Return the confidence of a sentence as text. */
export function percentage(sentence) {
  return `${Math.round(100 * sentence.confidence)} %`;
}

/** The output: an element with one element for each sentence. */
export class Output {
  constructor(container) {
    this.container = container;
    this.clear();
  }

  clear() {
    this.sentences = [];
    this.after = "";
    this.whole = null;
    this.through = null;
    this.container.replaceChildren();
  }

  /** Text of the translation as it is shown. */
  get text() {
    if (this.whole !== null) return this.whole;
    return this.sentences.map((sentence) => sentence.before + sentence.translation).join("") + this.after;
  }

  /** Begin a new translation; what is shown stays, greyed, until it is replaced sentence by sentence. */
  begin(source) {
    this.sentences = [];
    this.after = "";
    this.whole = null;
    this.source = source;
    this.end = 0;
    for (const old of this.container.children) old.classList.add("stale");
  }

  add(sentence) {
    const start = this.source.indexOf(sentence.source, this.end);
    if (start >= 0) this.end = start + sentence.source.length;
    const index = this.sentences.push({ ...sentence, start: start < 0 ? null : start, links: null }) - 1;
    const shown = this.render(index);
    const old = this.container.children[index];
    if (old) old.replaceWith(shown);
    else this.container.append(shown);
  }

  finish(answer) {
    this.through = answer.through;
    this.after = answer.after;
    while (this.container.children.length > this.sentences.length) this.container.lastChild.remove();
    if (!answer.sentences.length && answer.text) {
      this.whole = answer.text;
      this.container.replaceChildren(element("span", { className: "whole" }, answer.text));
    }
  }

  /** Replace the translation of a sentence by one that the reader chose. */
  choose(index, alternative) {
    const { text, score } = alternative;
    Object.assign(this.sentences[index], { translation: text, score, confidence: null, links: null, chosen: true });
    this.container.children[index].replaceWith(this.render(index));
  }

  sentenceAt(index) {
    return this.container.querySelector(`.sentence[data-index="${index}"]`);
  }

  /** Mark a sentence from a word on, or none for -1. */
  select(index, word = 0) {
    for (const shown of this.container.querySelectorAll(".sentence")) {
      const selected = Number(shown.dataset.index) === index;
      shown.setAttribute("aria-expanded", String(selected));
      for (const each of shown.querySelectorAll(".word")) each.classList.toggle("kept", selected && each.word < word);
    }
  }

  /** Return the number of the word of a sentence that the arrow keys have reached; 0 at first. */
  wordAt(shown) {
    return shown.querySelector(".word.at")?.word ?? 0;
  }

  /** Move to another word of a sentence, and return that word. */
  moveWord(shown, step) {
    const words = [...shown.querySelectorAll(".word")];
    const marked = shown.querySelector(".word.at");
    const next = words[marked ? Math.min(words.length - 1, Math.max(0, marked.word + step)) : step > 0 ? 0 : words.length - 1];
    marked?.classList.remove("at");
    next?.classList.add("at");
    return next?.textContent ?? "";
  }

  render(index) {
    const sentence = this.sentences[index];
    const known = remarks(sentence);
    const button = element("span", { className: "sentence", role: "button", tabIndex: 0, "aria-expanded": "false" });
    button.dataset.index = index;
    if (known.length && !sentence.chosen) {
      button.classList.add("uncertain");
      button.title = known.join("\n");
      button.setAttribute("aria-description", known.join(" "));
    }
    let number = 0;
    for (const part of sentence.translation.split(/(\s+)/)) {
      if (!part) continue;
      if (/^\s/.test(part)) button.append(part);
      else button.append(Object.assign(element("span", { className: "word" }, part), { word: number++ }));
    }
    // The white space before a sentence is outside of it, so that an empty line is not part of what is pointed at.
    return element("span", { className: "place" }, sentence.before, button);
  }
}
