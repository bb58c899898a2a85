// The text is translated as it is typed: after a short pause, and from the beginning if it is changed meanwhile.

import * as api from "./api.js";
import { byId } from "./elements.js";

// Milliseconds without a key after which the text is translated.
const PAUSE = 50;
// Milliseconds between a request and the next one, for each character of the former: a million characters a minute.
const PAUSE_PER_CHARACTER = 0.06;
// How often a request is sent again that the server refuses for the time being.
const TRIES = 5;
// Characters by which the language of a text is detected; it is not detected again while they stay.
const OPENING = 200;
const NOTHING = { head: [], tail: [], start: 0, moved: 0 };

/**
 * The translation of the text area.
 *
 * `begun()` is called before a request, `finished(answer)` after the last event, `failed(error, again)` after an error;
 * `again` is the number of seconds after which the request is sent again, or null if it is not.
 */
export class Typing {
  constructor(area, output, languages, { begun, finished, failed }) {
    Object.assign(this, { area, output, languages, begun, finished, failed });
    this.abort = new AbortController();
    // When the next request may be sent.
    this.next = 0;
    this.stop();
  }

  /** The text, without lone surrogates, which UTF-8 cannot represent. */
  get text() {
    const { value } = this.area;
    return value.toWellFormed ? value.toWellFormed() : value;
  }

  /** Whether the output is the translation of the text. */
  get isCurrent() {
    return this.shownFor === this.area.value;
  }

  /** Languages of the sentences that the output has. */
  get pair() {
    return { source: this.source ?? this.languages.source.value, target: this.languages.target.value };
  }

  /** Give up what is being translated. */
  stop() {
    this.abort.abort();
    clearTimeout(this.timer);
    this.shownFor = null;
    this.setBusy(false);
  }

  /** Forget the output. */
  clear() {
    this.stop();
    Object.assign(this, { made: null, opening: null });
    this.output.clear();
  }

  /** Translate the text after a pause; without one if `atOnce`. */
  start(atOnce) {
    this.stop();
    this.tries = 0;
    this.timer = setTimeout(() => this.run(), atOnce ? 0 : Math.max(PAUSE, this.next - performance.now()));
  }

  setBusy(busy) {
    document.body.classList.toggle("busy", busy);
    byId("output").setAttribute("aria-busy", String(busy));
  }

  /** Return what has to be translated: {text, source, target, kept}. */
  plan() {
    const { text } = this;
    const { source: chosen, target } = this.languages;
    const { detected } = this.languages;
    const isOpened = chosen.value === "auto" && detected && this.opening && text.startsWith(this.opening);
    const source = isOpened ? detected : chosen.value;
    const isSamePair = source !== "auto" && this.made === `${source} ${target.value}`;
    const kept = isSamePair ? this.output.reusable(text) : { ...NOTHING, end: text.length };
    return { text, source, target: target.value, kept };
  }

  async run() {
    const { signal } = (this.abort = new AbortController());
    const typed = this.area.value;
    const { text, source, target, kept } = this.plan();
    this.setBusy(true);
    this.source = source === "auto" ? null : source;
    this.made = this.source && `${source} ${target}`;
    this.begun();
    this.output.begin(text, kept);
    const change = text.slice(kept.start, kept.end);
    this.next = performance.now() + change.length * PAUSE_PER_CHARACTER;
    try {
      if (!change.trim()) return this.finish({ source, sentences: [], after: change, through: this.output.through }, typed);
      for await (const [name, data] of api.stream({ text: change, source, target, words: true }, signal)) {
        if (signal.aborted) return;
        if (name === "sentence") this.output.add(data);
        else this.finish(data, typed);
      }
    } catch (error) {
      if (!signal.aborted) this.fail(error);
    }
  }

  finish(answer, typed) {
    this.output.finish(answer);
    this.source = answer.source;
    this.made = `${answer.source} ${this.languages.target.value}`;
    this.shownFor = typed;
    this.setBusy(false);
    if (this.languages.source.value === "auto") {
      const { text } = this;
      this.opening = text.length < OPENING ? null : text.slice(0, OPENING);
      this.languages.detect(answer.source);
    }
    this.finished(answer);
  }

  fail(error) {
    this.shownFor = null;
    this.setBusy(false);
    const again = error.passes && this.tries < TRIES ? error.retryAfter : null;
    this.tries += 1;
    if (again !== null) this.timer = setTimeout(() => this.run(), 1000 * again);
    this.failed(error, again);
  }
}
