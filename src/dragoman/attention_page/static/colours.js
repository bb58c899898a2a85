// Colours: of heads, of maps, and of the two schemes.

// Okabe and Ito's eight, which people with any kind of colour vision tell apart; the darkest are lightened on dark
// paper, the lightest darkened on light paper.
const HEAD_COLOURS = {
  light: ["#0072b2", "#d55e00", "#009e73", "#cc79a7", "#56b4e9", "#e69f00", "#a89a00", "#3a3a3a"],
  dark: ["#4a9bd9", "#f0803c", "#1fbf92", "#de95bd", "#8fd0f5", "#f0b030", "#f0e442", "#d8d8d8"],
};

const isDark = () => document.documentElement.dataset.theme === "dark";

/** A colour of the style sheet, by the name of its variable. */
const colourOf = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();

function headColour(head) {
  const colours = HEAD_COLOURS[isDark() ? "dark" : "light"];
  if (head < colours.length) return colours[head];
  // The golden angle keeps hues of any number of heads apart; lightness tells neighbours apart.
  const lightness = (isDark() ? 68 : 46) + (head % 2 ? 10 : 0);
  return d3.hcl((head * 137.5) % 360, 48, lightness).formatHex();
}

/** From a weight, 0 to 1, to the colour of a map. */
function mapColours() {
  return d3.piecewise(
    d3.interpolateLab,
    isDark() ? ["#1d2127", "#21517f", "#57a3e0", "#f2f8ff"] : ["#f6f3ec", "#a9cbe6", "#2f7ab8", "#08284f"],
  );
}

/** From a change, -1 to 1: what is lost, nothing, what is won. */
function changeColours() {
  const nothing = colourOf("--surface");
  const [lost, won] = isDark() ? ["#e0703a", "#4a9bd9"] : ["#d55e00", "#0072b2"];
  return (share) => d3.interpolateLab(nothing, share < 0 ? lost : won)(Math.min(Math.abs(share), 1));
}

/** Ink that can be read on a colour. */
const inkOn = (colour) => (d3.lab(colour).l > 58 ? "#14161a" : "#ffffff");

/** A canvas ready to draw on, in CSS pixels and sharp on any screen; it is empty. */
function prepareCanvas(canvas, width, height) {
  const ratio = window.devicePixelRatio || 1;
  canvas.width = Math.max(1, Math.round(width * ratio));
  canvas.height = Math.max(1, Math.round(height * ratio));
  canvas.style.width = `${width}px`;
  canvas.style.height = `${height}px`;
  const context = canvas.getContext("2d");
  context.scale(ratio, ratio);
  return context;
}
