// The frame of the page: sentence, tabs, colour scheme.

const VIEWS = [
  { id: "heads", name: "Heads", build: headsView },
  { id: "overview", name: "Overview", build: overviewView },
  { id: "query-key", name: "Query and key", build: queryKeyView },
  { id: "graph", name: "Graph", build: graphView },
  isText
    ? { id: "prediction", name: "Prediction", build: predictionView }
    : { id: "translation", name: "Translation", build: translationView },
  { id: "what-if", name: "What if", build: whatIfView },
].filter(({ id }) => !(isText && payload.logProbability === null && ["prediction", "what-if"].includes(id)));
const tabs = d3.select("#tabs");
const panels = d3.select("#panels");
const updates = new Map();
let current = null;
let updateTabOrderOfTabs = () => {};

function openView(id) {
  current = id;
  tabs.selectAll("button").attr("aria-selected", (view) => String(view.id === id));
  panels.selectAll("section.panel").attr("hidden", (view) => (view.id === id ? null : ""));
  // A view is built when it is first opened, because hidden elements have no size.
  if (!updates.has(id)) {
    const view = VIEWS.find((candidate) => candidate.id === id);
    updates.set(id, view.build(panels.select(`#panel-${id}`)));
  }
  updateTabOrderOfTabs();
  refresh();
}

function setTheme(theme) {
  document.documentElement.dataset.theme = theme;
  d3.select("#theme")
    .text(theme === "dark" ? "Light" : "Dark")
    .attr("aria-label", theme === "dark" ? "Use light colours" : "Use dark colours");
  if (current) refresh();
}

function writeSentence() {
  d3.select("#text").text(payload.text);
  d3.select("#translation").text(payload.translation);
  if (!translates) {
    d3.select("#text-label").text("Text");
    d3.select("#translation-label").text("Predicted");
    d3.select("#second").attr("hidden", payload.logProbability === null ? "" : null);
    const count = payload.rows.predicted.tokens.length;
    const perplexity = fixed(Math.exp(-payload.logProbability / count), 2);
    // An encoder has no probability of a text: the sum is over tokens, each of which is masked in turn.
    const whose = payload.kinds.decoder_self ? "of the text" : "of the tokens, each masked in turn,";
    d3.select("#score").text(
      `log-probability ${whose} ${fixed(payload.logProbability, 2)}, perplexity ${perplexity} per token`,
    );
    return;
  }
  const order = payload.rightToLeft ? "; written from the last token to the first, and shown in this order below" : "";
  d3.select("#score").text(`log-probability ${fixed(payload.logProbability, 2)}${order}`);
}

function start(numbers) {
  for (const [kind, entry] of Object.entries(payload.kinds)) {
    attentions[kind] = new Attention(kind, entry, payload.rows, numbers);
  }
  const [first] = Object.values(attentions);
  refresh = () => updates.get(current)();
  tabs
    .selectAll("button")
    .data(VIEWS)
    .join("button")
    .attr("type", "button")
    .attr("role", "tab")
    .attr("id", (view) => `tab-${view.id}`)
    .attr("aria-controls", (view) => `panel-${view.id}`)
    .text((view) => view.name)
    .on("click", (event, view) => openView(view.id));
  updateTabOrderOfTabs = rovingTabindex(tabs.node(), "button", {
    chosen: (item) => item.getAttribute("aria-selected") === "true",
    moved: (item) => item.click(),
  });
  panels
    .selectAll("section.panel")
    .data(VIEWS)
    .join("section")
    .attr("class", "panel")
    .attr("role", "tabpanel")
    .attr("id", (view) => `panel-${view.id}`)
    .attr("aria-labelledby", (view) => `tab-${view.id}`);
  if (!first) {
    addNote(panels, "This model has no attention to show.");
    return;
  }
  // Start with layer 5, which is the usual example for what "it" refers to in a model of six layers.
  Object.assign(state, { kind: first.kind, layer: Math.min(4, first.layers - 1) });
  state.query = Math.floor(first.queries.length / 2);
  state.key = Math.max(
    0,
    d3.maxIndex(first.keys, (token, key) => first.weight(state.layer, 0, state.query, key)),
  );
  openView(VIEWS[0].id);
  // Views are drawn for the current width, and drawing changes only their height: redraw when the width changes.
  let width = panels.node().clientWidth;
  new ResizeObserver(() => {
    if (panels.node().clientWidth === width) return;
    width = panels.node().clientWidth;
    requestAnimationFrame(refresh);
  }).observe(panels.node());
}

const prefersDark = window.matchMedia("(prefers-color-scheme: dark)");
// A page that shows this one in a frame may have chosen the colours.
const { theme: chosenTheme } = document.documentElement.dataset;
let themeChosen = Boolean(chosenTheme);
setTheme(chosenTheme ?? (prefersDark.matches ? "dark" : "light"));
prefersDark.addEventListener("change", () => themeChosen || setTheme(prefersDark.matches ? "dark" : "light"));
d3.select("#theme").on("click", () => {
  themeChosen = true;
  setTheme(isDark() ? "light" : "dark");
});
// In a frame, this page has the focus; the page around it may close it by Escape.
addEventListener("keydown", (event) => {
  if (event.key === "Escape" && !event.defaultPrevented && parent !== window) parent.postMessage("escape", "*");
});
writeSentence();
unpack(payload.numbers).then(start, () => {
  addNote(panels, "This browser cannot read the data in this page: it needs DecompressionStream (browsers since 2023).");
});
