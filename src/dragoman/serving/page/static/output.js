// The translation as sentences, which can be selected and replaced.

import { element } from "./elements.js";
import { unchanged } from "./reuse.js";
import { wordElements } from "./words.js";

// A word is marked as uncertain below this probability, chosen with benchmarks/uncertain_words.py.
const LEAST_PROBABILITY = 0.1;
// A sentence is marked as uncertain below this confidence; or, if neither that nor the probabilities of its words are
// known, below this score (log-probability divided by the length penalty). Chosen with benchmarks/confidence.py.
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
  } else if (!sentence.words && sentence.score < LOWEST_SCORE) {
    list.push("Uncertain: the model gave this translation a low probability.");
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

/** Return whether the model gave a word of a sentence a low probability. */
function isUncertain(sentence, word) {
  return !sentence.chosen && sentence.words?.[word] < LEAST_PROBABILITY;
}

/** Return whether two sentences look alike. */
function alike(a, b) {
  const looks = (sentence) =>
    JSON.stringify([
      sentence.before,
      sentence.translation,
      remarks(sentence),
      sentence.words?.map((_, word) => isUncertain(sentence, word)),
    ]);
  return !a.chosen && !b.chosen && looks(a) === looks(b);
}

/** The output: an element with one element, its place, for each sentence. */
export class Output {
  constructor(container) {
    this.container = container;
    this.clear();
    // One sentence is in the order of the tab key; arrow keys lead to the others.
    container.addEventListener("focusin", ({ target }) => {
      if (!target.matches(".sentence")) return;
      for (const other of container.querySelectorAll('.sentence[tabindex="0"]')) other.tabIndex = -1;
      target.tabIndex = 0;
    });
  }

  clear() {
    // `tail`: sentences after the change that is translated; `chosen`: alternatives {text, score} by source sentence.
    Object.assign(this, { source: "", sentences: [], tail: [], after: "", whole: null, through: null });
    this.chosen = new Map();
    this.container.replaceChildren();
  }

  /** Text of the translation as it is shown. */
  get text() {
    if (this.whole !== null) return this.whole;
    return this.sentences.map((sentence) => sentence.before + sentence.translation).join("") + this.after;
  }

  /** Return what a changed text has in common with that of this output, as `unchanged`. */
  reusable(text) {
    return unchanged(text, { text: this.source, head: this.sentences, tail: this.tail });
  }

  /**
   * Begin a new translation. What `reusable` returned stays; the rest is greyed until it is replaced sentence by
   * sentence.
   */
  begin(source, { head, tail, start, moved }) {
    for (const sentence of tail) sentence.start += moved;
    Object.assign(this, { source, sentences: [...head], tail, after: "", whole: null, end: start });
    const current = new Set([...head, ...tail].map((sentence) => sentence.place));
    for (const place of this.container.children) place.classList.toggle("stale", !current.has(place));
  }

  add(answer) {
    const start = this.source.indexOf(answer.source, this.end);
    if (start >= 0) this.end = start + answer.source.length;
    const sentence = { ...answer, start: start < 0 ? null : start, links: null };
    const next = this.container.children[this.sentences.length];
    const old = next?.classList.contains("stale") ? next : null;
    this.sentences.push(sentence);
    if (old?.sentence && alike(old.sentence, sentence)) {
      sentence.place = old;
      old.sentence = sentence;
      old.classList.remove("stale");
    } else {
      this.render(sentence);
      if (old) old.replaceWith(sentence.place);
      else this.container.insertBefore(sentence.place, next ?? null);
    }
    this.number(this.sentences.length - 1);
    if (this.chosen.has(sentence.source)) this.choose(this.sentences.length - 1, this.chosen.get(sentence.source));
  }

  finish(answer) {
    for (const old of this.container.querySelectorAll(":scope > .stale")) old.remove();
    const [following] = this.tail;
    if (following) {
      following.before = answer.after;
      following.place.firstChild.data = answer.after;
    } else {
      this.after = answer.after;
    }
    this.through = answer.through;
    const first = this.sentences.length;
    this.sentences = [...this.sentences, ...this.tail];
    for (let index = first; index < this.sentences.length; index += 1) this.number(index);
    this.tail = this.sentences;
    if (!this.sentences.length && answer.text) {
      this.whole = answer.text;
      this.container.replaceChildren(element("span", { className: "whole" }, answer.text));
    }
    if (this.sentences.length && !this.container.querySelector('.sentence[tabindex="0"]')) this.sentenceAt(0).tabIndex = 0;
  }

  number(index) {
    this.sentences[index].place.lastChild.dataset.index = index;
  }

  /** Replace the translation of a sentence by one that the reader chose. */
  choose(index, { text, score }) {
    const sentence = this.sentences[index];
    const old = sentence.place;
    this.chosen.set(sentence.source, { text, score });
    Object.assign(sentence, { translation: text, score, confidence: null, links: null, chosen: true });
    this.render(sentence);
    sentence.place.lastChild.tabIndex = old.lastChild.tabIndex;
    old.replaceWith(sentence.place);
    this.number(index);
  }

  sentenceAt(index) {
    return this.sentences[index]?.place.lastChild;
  }

  /** Return the element of the word of a sentence that begins at an offset. */
  wordAt(index, start) {
    return [...this.sentenceAt(index).querySelectorAll(".word")].find((word) => word.start === start) ?? null;
  }

  /** Mark a sentence from an offset on, or none for -1. */
  select(index, start = 0) {
    for (const shown of this.container.querySelectorAll('[aria-expanded="true"]')) {
      shown.setAttribute("aria-expanded", "false");
      for (const each of shown.querySelectorAll(".kept")) each.classList.remove("kept");
    }
    const shown = this.sentenceAt(index);
    if (!shown) return;
    shown.setAttribute("aria-expanded", "true");
    for (const each of shown.querySelectorAll(".word")) each.classList.toggle("kept", each.start < start);
  }

  /** Return the word of a sentence that the arrow keys have reached; null at first. */
  reached(shown) {
    return shown.querySelector(".word.at");
  }

  /** Move to another word of a sentence, and return its element. */
  moveWord(shown, step) {
    const words = [...shown.querySelectorAll(".word")];
    const marked = this.reached(shown);
    const from = marked ? words.indexOf(marked) : step > 0 ? -1 : words.length;
    const next = words[Math.min(words.length - 1, Math.max(0, from + step))] ?? null;
    marked?.classList.remove("at");
    next?.classList.add("at");
    return next;
  }

  /** Make the element of a sentence. */
  render(sentence) {
    const known = remarks(sentence);
    const button = element("span", { className: "sentence", role: "button", tabIndex: -1, "aria-expanded": "false" });
    if (known.length && !sentence.chosen) {
      button.classList.add("uncertain");
      button.title = known.join("\n");
    }
    button.append(...wordElements(sentence.translation, this.container.lang));
    const uncertain = [...button.querySelectorAll(".word")].filter((each) => isUncertain(sentence, each.word));
    for (const each of uncertain) each.classList.add("uncertain");
    if (uncertain.length) known.push(`Uncertain words: ${uncertain.map((each) => each.textContent).join(", ")}`);
    if (known.length && !sentence.chosen) button.setAttribute("aria-description", known.join(" "));
    // The white space before a sentence is outside of it, so that an empty line is not part of what is pointed at.
    sentence.place = element("span", { className: "place" }, document.createTextNode(sentence.before), button);
    sentence.place.sentence = sentence;
  }
}
