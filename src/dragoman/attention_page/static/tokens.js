// Tokens and words. They are always inserted as text, never as markup, and each keeps its own writing direction.

const SPACE = "▁";

/** Write a token into an element: spaces as faint marks, special symbols and bytes unchanged. */
function writeToken(element, token) {
  const spaces = token.match(/^▁*/)[0].length;
  const node = d3.select(element).attr("dir", "auto").text(null);
  node.classed("special", token === "<s>" || token === "</s>");
  node.classed("byte", /^<0x[0-9A-F]{2}>$/.test(token));
  if (spaces) node.append("span").attr("class", "space").attr("aria-hidden", "true").text("·".repeat(spaces));
  node.append("span").text(token.slice(spaces).replaceAll(SPACE, " "));
}

/** Return a token as readable text. */
const readable = (token) => token.replaceAll(SPACE, " ").trim() || "space";

/** Write a line of strings and tokens ({ token }) into an element; tokens are bold. */
function writeParts(element, parts) {
  const line = d3.select(element).text(null);
  for (const part of parts) {
    if (typeof part === "string") line.append("span").text(part);
    else line.append("bdi").text(readable(part.token));
  }
}

/** Announce a line of text to screen readers, for which the tables are too long. */
const announce = (parts) => writeParts(document.getElementById("announcement"), parts);

const RIGHT_TO_LEFT = /[\p{Script=Arabic}\p{Script=Hebrew}\p{Script=Syriac}\p{Script=Thaana}\p{Script=Nko}]/u;

/** Return the writing direction of a row of tokens: that of its first letter, ignoring symbols like <s>. */
function directionOf(tokens) {
  const text = tokens.filter((token) => !/^<.*>$/.test(token)).join(" ");
  const letter = text.match(/\p{L}/u);
  return letter && RIGHT_TO_LEFT.test(letter[0]) ? "rtl" : "ltr";
}
