// Words of a text: what stands between white space; in scripts without spaces, what the browser takes for a word.

const WITHOUT_SPACES = /[\p{sc=Han}\p{sc=Hiragana}\p{sc=Katakana}\p{sc=Thai}\p{sc=Lao}\p{sc=Khmer}\p{sc=Myanmar}]/u;

/**
 * Return the parts of a text {part, start, number, isWord}, white space included.
 *
 * `number` counts words as links between words do, by white space alone, so that several words of a script without
 * spaces have the same number.
 */
export function partsOf(text, language) {
  const list = [];
  let number = -1;
  for (const { 0: part, index } of text.matchAll(/\s+|\S+/g)) {
    const isWord = !/^\s/.test(part);
    if (isWord) number += 1;
    if (!isWord || !Intl.Segmenter || !WITHOUT_SPACES.test(part)) {
      list.push({ part, start: index, number, isWord });
      continue;
    }
    for (const piece of new Intl.Segmenter(language || undefined, { granularity: "word" }).segment(part)) {
      const start = index + piece.index;
      // Punctuation belongs to the word before it.
      if (piece.isWordLike || list.at(-1)?.number !== number) list.push({ part: piece.segment, start, number, isWord });
      else list.at(-1).part += piece.segment;
    }
  }
  return list;
}

/** Return the first word of a text. */
export const firstWord = (text, language) => partsOf(text, language).find((each) => each.isWord)?.part ?? "";

/** Return a text as strings and elements of words, which have the properties `word` (number) and `start` (offset). */
export function wordElements(text, language) {
  return partsOf(text, language).map(({ part, start, number, isWord }) => {
    if (!isWord) return part;
    const made = document.createElement("span");
    made.className = "word";
    made.textContent = part;
    return Object.assign(made, { word: number, start });
  });
}
