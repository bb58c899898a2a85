// Alternatives of a sentence, or of its end from a word on.

import { announce, byId, element } from "./elements.js";
import { isCalibrated, percentage, remarks } from "./output.js";
import { firstWord } from "./words.js";

/** Return the outputs that begin with the prefix: first one for each next word, then the others. */
function ordered(outputs, prefix, language) {
  const fitting = outputs.filter((each) => each.text.startsWith(prefix));
  const words = fitting.map((each) => firstWord(each.text.slice(prefix.length), language));
  const first = fitting.filter((_, index) => words.indexOf(words[index]) === index);
  return [...first, ...fitting.filter((each) => !first.includes(each))];
}

/**
 * The panel with alternatives.
 *
 * `search(index, prefix)` returns a sentence with `alternatives`, all of which begin with the prefix; `language()`
 * returns the code of the language of the translation; `report(error)` shows an error; `chosen()` is called after a
 * sentence was replaced, and `closed()` after the panel was closed.
 */
export class Choices {
  constructor(output, { search, language, report, chosen, closed }) {
    Object.assign(this, { output, search, language, report, chosen, closed });
    this.selected = -1;
    byId("choices-close").addEventListener("click", () => this.leave());
  }

  /** Show the alternatives of a sentence from the word on that begins at an offset; 0 for the whole sentence. */
  async show(index, start) {
    this.selected = index;
    const shown = this.output.sentences[index];
    const prefix = shown.translation.slice(0, start).trimEnd();
    const turn = (this.turn = {});
    this.output.select(index, start);
    byId("choices").hidden = false;
    const word = element("bdi", { lang: this.language() }, firstWord(shown.translation.slice(start), this.language()));
    byId("choices-title").replaceChildren(...(prefix ? ["Alternatives from “", word, "” on"] : ["Alternatives"]));
    byId("choices-source").textContent = shown.source;
    byId("choices-confidence").hidden = !isCalibrated(shown);
    byId("choices-confidence").textContent = isCalibrated(shown)
      ? `Confidence ${percentage(shown)}: the share of sentences with this value that are translated well.`
      : "";
    byId("choices-flags").hidden = !remarks(shown).length;
    byId("choices-flags").textContent = remarks(shown).join(" ");
    byId("choices-list").replaceChildren(element("li", { className: "soft" }, "Searching…"));
    byId("choices-title").focus({ preventScroll: true });
    try {
      const sentence = await this.search(index, prefix);
      if (this.turn !== turn) return;
      const outputs = [{ text: sentence.translation, score: sentence.score }, ...sentence.alternatives];
      const list = ordered(outputs, prefix, this.language()).map((each) => this.choice(index, each, prefix));
      const none = "The model has no other way to continue from here.";
      const end = list.length > 1 ? [] : [element("li", { className: "soft" }, none)];
      byId("choices-list").replaceChildren(...list, ...end);
      this.uncover(this.output.wordAt(index, start));
      announce(list.length > 1 ? `${list.length} alternatives.` : none);
    } catch (error) {
      if (this.turn !== turn) return;
      this.leave();
      this.report(error);
    }
  }

  /** Scroll until the panel does not cover a word. */
  uncover(word) {
    const covered = (word?.getBoundingClientRect().bottom ?? 0) - byId("choices").getBoundingClientRect().top;
    if (covered > 0) scrollBy({ top: covered + 16 });
  }

  choice(index, alternative, prefix) {
    const current = this.output.sentences[index].translation === alternative.text;
    const button = element(
      "button",
      { type: "button", className: "choice", "aria-pressed": String(current) },
      element(
        "span",
        { dir: "auto", lang: this.language() },
        element("span", { className: "kept" }, alternative.text.slice(0, prefix.length)),
        alternative.text.slice(prefix.length),
      ),
      element("span", { className: "score" }, `score ${alternative.score.toFixed(2).replace("-", "−")}`),
    );
    button.addEventListener("click", () => {
      this.output.choose(index, alternative);
      this.leave();
      announce("Replaced by: ", element("span", { lang: this.language() }, alternative.text));
      this.chosen();
    });
    return element("li", {}, button);
  }

  get open() {
    return this.selected >= 0;
  }

  close() {
    if (!this.open) return;
    byId("choices").hidden = true;
    this.selected = -1;
    this.turn = null;
    this.output.select(-1);
    this.closed();
  }

  /** Close the panel, and return to the sentence. */
  leave() {
    const index = this.selected;
    this.close();
    this.output.sentenceAt(index)?.focus();
  }
}
