// Tokens and words: always text, never markup, and each keeps its own writing direction.

const SPACE = "▁";

/** Write a token into an element: a faint mark for each space, special symbols and bytes as they are. */
function writeToken(element, token) {
  const spaces = token.match(/^▁*/)[0].length;
  const node = d3.select(element).attr("dir", "auto").text(null);
  node.classed("special", token === "<s>" || token === "</s>");
  node.classed("byte", /^<0x[0-9A-F]{2}>$/.test(token));
  if (spaces) node.append("span").attr("class", "space").attr("aria-hidden", "true").text("·".repeat(spaces));
  node.append("span").text(token.slice(spaces).replaceAll(SPACE, " "));
}

/** A token as people would write it. */
const spoken = (token) => token.replaceAll(SPACE, " ").trim() || "space";

/** Write a line of strings and tokens ({ token }); tokens are set apart in bold. */
function say(element, parts) {
  const line = d3.select(element).text(null);
  for (const part of parts) {
    if (typeof part === "string") line.append("span").text(part);
    else line.append("bdi").text(spoken(part.token));
  }
}

/** Tell those who hear the page, in a line; a table would be too long. */
const announce = (parts) => say(document.getElementById("heard"), parts);

const RIGHT_TO_LEFT = /[\p{Script=Arabic}\p{Script=Hebrew}\p{Script=Syriac}\p{Script=Thaana}\p{Script=Nko}]/u;

/** The direction of a row of tokens: that of its first letter; symbols like <s> do not count. */
function directionOf(tokens) {
  const text = tokens.filter((token) => !/^<.*>$/.test(token)).join(" ");
  const letter = text.match(/\p{L}/u);
  return letter && RIGHT_TO_LEFT.test(letter[0]) ? "rtl" : "ltr";
}
