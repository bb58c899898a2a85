// Colours of heads and maps, for the light and the dark scheme.

// The eight colours of Okabe and Ito, which are distinguishable with any kind of colour vision. The darkest are
// lightened for the dark scheme, and the lightest darkened for the light scheme.
const HEAD_COLOURS = {
  light: ["#0072b2", "#d55e00", "#009e73", "#cc79a7", "#56b4e9", "#e69f00", "#a89a00", "#3a3a3a"],
  dark: ["#4a9bd9", "#f0803c", "#1fbf92", "#de95bd", "#8fd0f5", "#f0b030", "#f0e442", "#d8d8d8"],
};

const isDark = () => document.documentElement.dataset.theme === "dark";

/** Return a colour of the style sheet, by the name of its variable. */
const colourOf = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();

function headColour(head) {
  const colours = HEAD_COLOURS[isDark() ? "dark" : "light"];
  if (head < colours.length) return colours[head];
  // The golden angle gives distinct hues for any number of heads; lightness alternates between neighbours.
  const lightness = (isDark() ? 68 : 46) + (head % 2 ? 10 : 0);
  return d3.hcl((head * 137.5) % 360, 48, lightness).formatHex();
}

/** Return a function from a weight, 0 to 1, to its colour in a map. */
function mapColours() {
  return d3.piecewise(
    d3.interpolateLab,
    isDark() ? ["#1d2127", "#21517f", "#57a3e0", "#f2f8ff"] : ["#f6f3ec", "#a9cbe6", "#2f7ab8", "#08284f"],
  );
}

/** Return a function from a relative change, -1 to 1, to its colour. */
function changeColours() {
  const neutral = colourOf("--surface");
  const [decrease, increase] = isDark() ? ["#e0703a", "#4a9bd9"] : ["#d55e00", "#0072b2"];
  return (change) => d3.interpolateLab(neutral, change < 0 ? decrease : increase)(Math.min(Math.abs(change), 1));
}

/** Return a text colour that is readable on a background colour. */
const inkOn = (colour) => (d3.lab(colour).l > 58 ? "#14161a" : "#ffffff");

/** Clear a canvas and set its size in CSS pixels, at the resolution of the screen; return its drawing context. */
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
