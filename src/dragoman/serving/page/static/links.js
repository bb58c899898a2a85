// Words of the translation and of the source that are linked are highlighted together.
//
// A text area cannot mark words. Behind it lies the same text in the same layout, in transparent letters, whose words
// are marked and found under the pointer.

import { element } from "./elements.js";
import { endOf } from "./reuse.js";
import { wordElements } from "./words.js";

const PAUSE = 100;

/**
 * Highlighting of links.
 *
 * `load(index)` returns the links [source word, target word] of a sentence, or [] if there are none for it.
 */
export class Links {
  constructor(area, backdrop, output, load) {
    this.area = area;
    this.backdrop = backdrop;
    this.output = output;
    this.load = load;
    this.pointed = null;
    this.held = null;
    // Whether the words can be laid behind the text area, and are not yet.
    this.isReady = false;
    output.container.addEventListener("pointerover", (event) => this.point(event.target.closest(".word")));
    output.container.addEventListener("pointerleave", () => this.point(null));
    output.container.addEventListener("focusin", (event) => this.point(event.target.closest(".sentence")));
    output.container.addEventListener("focusout", () => this.point(null));
    area.addEventListener("pointermove", ({ clientX, clientY }) => {
      this.build();
      const words = document.elementsFromPoint(clientX, clientY).filter((each) => each.matches("#backdrop .word"));
      this.point(words[0] ?? null);
    });
    area.addEventListener("pointerleave", () => this.point(null));
  }

  /** Lay the text behind the text area, without words to mark. */
  reset() {
    this.hold(null);
    this.isReady = false;
    // The last line feed has a line of its own only if something follows it.
    this.backdrop.replaceChildren(this.area.value + "\u200b");
  }

  /** Called when the output is the translation of the text. */
  update() {
    this.point(null);
    this.isReady = true;
  }

  /** Lay the text behind the text area, with the words of the sentences; when they are needed, as it takes long. */
  build() {
    if (!this.isReady) return;
    this.isReady = false;
    const text = this.area.value;
    const parts = [];
    let end = 0;
    for (const [index, sentence] of this.output.sentences.entries()) {
      if (sentence.start === null) continue;
      sentence.behind ??= element("span", { className: "source-sentence" }, ...wordElements(sentence.source, this.area.lang));
      sentence.behind.dataset.index = index;
      parts.push(text.slice(end, sentence.start), sentence.behind);
      end = endOf(sentence);
    }
    this.backdrop.replaceChildren(...parts, text.slice(end) + "\u200b");
  }

  /** Point at an element whenever nothing else is pointed at. */
  hold(shown) {
    this.held = shown;
    this.point(shown);
  }

  /** Point at a word on either side, at a sentence, or at nothing. */
  point(shown) {
    shown ??= this.held;
    if (shown) this.build();
    if (shown === this.pointed) return;
    this.pointed = shown;
    clearTimeout(this.timer);
    for (const each of document.querySelectorAll(".linked")) each.classList.remove("linked");
    const index = Number(shown?.closest("[data-index]")?.dataset.index ?? -1);
    if (index < 0 || index >= this.output.sentences.length) return;
    this.output.sentences[index].behind?.classList.add("linked");
    if (!shown.classList.contains("word")) return;
    this.timer = setTimeout(() => this.highlight(shown, index), PAUSE);
  }

  async highlight(shown, index) {
    const sentence = this.output.sentences[index];
    // A failure is not worth a message; the next time that the word is pointed at may succeed.
    sentence.links ??= this.load(index).catch(() => (sentence.links = null));
    const links = (await sentence.links) ?? [];
    // The pointer may have moved on, or the text may have changed.
    if (this.pointed !== shown || this.output.sentences[index] !== sentence) return;
    const side = this.backdrop.contains(shown) ? 0 : 1;
    const linked = links.filter((link) => link[side] === shown.word).map((link) => link[1 - side]);
    const other = side ? sentence.behind : sentence.place;
    for (const word of other?.querySelectorAll(".word") ?? []) {
      if (linked.includes(word.word)) word.classList.add("linked");
    }
    if (linked.length) shown.classList.add("linked");
  }
}
