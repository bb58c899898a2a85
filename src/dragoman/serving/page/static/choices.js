// Alternatives of a sentence, or of its end from a word on.

import { byId, element } from "./elements.js";
import { isCalibrated, percentage, remarks } from "./output.js";

/** Return the text before a word of a sentence, without the space between them. */
export function prefixOf(translation, word) {
  const starts = [...translation.matchAll(/\S+/g)].map((match) => match.index);
  return translation.slice(0, starts[word] ?? 0).trimEnd();
}

/** Return the first word of a text after a prefix. */
const nextWord = (text, prefix) => text.slice(prefix.length).trim().split(/\s+/)[0];

/** Return the outputs that begin with the prefix: first one for each next word, then the others. */
function ordered(outputs, prefix) {
  const fitting = outputs.filter((each) => each.text.startsWith(prefix));
  const words = fitting.map((each) => nextWord(each.text, prefix));
  const first = fitting.filter((_, index) => words.indexOf(words[index]) === index);
  return [...first, ...fitting.filter((each) => !first.includes(each))];
}

/**
 * The panel with alternatives.
 *
 * `search(index, prefix)` returns a sentence with `alternatives`, all of which begin with the prefix; `language()`
 * returns the code of the language of the translation; `report(error)` shows an error.
 */
export class Choices {
  constructor(output, { search, language, report }) {
    Object.assign(this, { output, search, language, report });
    this.selected = -1;
    byId("choices-close").addEventListener("click", () => this.leave());
  }

  /** Show the alternatives of a sentence from a word on; 0 for the whole sentence. */
  async show(index, word) {
    this.selected = index;
    const shown = this.output.sentences[index];
    const prefix = prefixOf(shown.translation, word);
    const turn = (this.turn = {});
    this.output.select(index, word);
    byId("choices").hidden = false;
    byId("choices-title").textContent = prefix
      ? `Alternatives from “${nextWord(shown.translation, prefix)}” on`
      : "Alternatives";
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
      const list = ordered(outputs, prefix).map((each) => this.choice(index, each, prefix));
      const none = element("li", { className: "soft" }, "The model has no other way to continue from here.");
      byId("choices-list").replaceChildren(...list, ...(list.length > 1 ? [] : [none]));
      byId("choices").scrollIntoView({ block: "nearest" });
    } catch (error) {
      if (this.turn !== turn) return;
      this.close();
      this.report(error);
    }
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
      byId("status").textContent = `Replaced by: ${alternative.text}`;
    });
    return element("li", {}, button);
  }

  get open() {
    return this.selected >= 0;
  }

  close() {
    byId("choices").hidden = true;
    this.selected = -1;
    this.turn = null;
    this.output.select(-1);
  }

  /** Close the panel, and return to the sentence. */
  leave() {
    const index = this.selected;
    this.close();
    this.output.sentenceAt(index)?.focus();
  }
}
