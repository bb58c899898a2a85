// Two columns of tokens and a line for every weight.

// Fainter lines are not drawn: they cost most of the time and cannot be seen.
const FAINTEST = 0.02;
const ROWS_ARE = {
  encoder_self: "Both columns are the source.",
  decoder_self: "Both columns are the output, as the decoder reads it.",
  encoder_decoder: "On the left is the output, each token as it is about to be written; on the right, the source.",
};

function headsView(panel) {
  lead(
    panel,
    "Who looks at whom",
    "Every line is an attention weight: from the token that looks, on the left, to what it looks at, on the right. " +
      "The stronger the line, the larger the weight; each head has its colour. Point at a token, or reach it with Tab " +
      "and the arrow keys; a click holds it.",
  );
  const showControls = attentionControls(panel, Object.keys(attentions), { heads: "many" });
  const layout = panel.append("div").attr("class", "beside");
  const main = layout.append("div");
  const columns = main.append("div").attr("class", "columns");
  const aside = layout.append("aside").attr("aria-label", "Numbers");
  const column = (side, title) => {
    const box = columns.append("div").attr("class", `column ${side}`).attr("role", "group").attr("aria-label", title);
    box.append("div").attr("class", "column-title").text(title);
    return box;
  };
  const sides = { query: column("query", "looks") };
  const middle = columns.append("div").attr("class", "lines").attr("aria-hidden", "true");
  const [faint, strong] = [0, 1].map(() => middle.append("canvas"));
  sides.key = column("key", "is looked at");
  const footnote = main.append("p").attr("class", "footnote");
  const settle = Object.values(sides).map((side) => roving(side.node(), "button", { columns: () => 1 }));
  const pointer = pointing(columns.node(), "button.token", showPointed, samePlace);
  let attention;
  let places;

  // Left and right cross over to the token at the same height.
  const crossOver = (event) => {
    const to = { ArrowLeft: "query", ArrowRight: "key" }[event.key];
    if (!to) return;
    event.preventDefault();
    event.stopPropagation();
    const others = sides[to].selectAll("button").nodes();
    others[Math.min(d3.select(event.target).datum().index, others.length - 1)].focus();
  };
  columns.on("keydown", crossOver, true);

  function samePlace(a, b) {
    return a.side === b.side && a.index === b.index;
  }

  function update() {
    const before = attention;
    attention = attentionAmong(Object.keys(attentions));
    if (before !== attention) pointer.forget();
    showControls(attention);
    for (const [side, tokens] of [
      ["query", attention.queries],
      ["key", attention.keys],
    ]) {
      sides[side]
        .selectAll("button")
        .data(tokens.map((token, index) => ({ token, index, side })))
        .join((enter) => {
          const button = enter.append("button").attr("type", "button").attr("class", "token");
          button.append("span").attr("class", "word");
          button.append("span").attr("class", "amount");
          return button;
        })
        .attr("data-index", (datum) => datum.index)
        .select(".word")
        .each(function (datum) {
          writeToken(this, datum.token);
        });
    }
    settle.forEach((each) => each());
    places = measure();
    drawLines(faint.node(), null);
    const left = undrawn();
    footnote.text(
      `${ROWS_ARE[attention.kind]} Weights under ${percent(FAINTEST, 0)} are not drawn: ` +
        `${percent(left, 0)} of all attention here. ` +
        "Click a head to switch it on or off; Shift or a double click shows it alone.",
    );
    showPointed(pointer.current());
  }

  /** Where the lines begin and end. */
  function measure() {
    const { width, top } = middle.node().getBoundingClientRect();
    const heights = (side) =>
      sides[side]
        .selectAll("button")
        .nodes()
        .map((node) => {
          const box = node.getBoundingClientRect();
          return (box.top + box.bottom) / 2 - top;
        });
    return { width, from: heights("query"), to: heights("key") };
  }

  function drawLines(canvas, at) {
    const layer = layerIn(attention);
    const heads = headsIn(attention);
    const { width, from, to } = places;
    const context = prepareCanvas(canvas, width, Math.max(...from, ...to) + 16);
    // Heads of one pair lie beside each other rather than on top.
    const apart = Math.min(2.4, 14 / heads.length);
    for (const [place, head] of heads.entries()) {
      const shift = (place - (heads.length - 1) / 2) * apart;
      context.strokeStyle = headColour(head);
      for (let query = 0; query < from.length; query++) {
        if (at?.side === "query" && at.index !== query) continue;
        for (let key = 0; key < to.length; key++) {
          if (at?.side === "key" && at.index !== key) continue;
          const weight = attention.weight(layer, head, query, key);
          if (weight < FAINTEST) continue;
          context.globalAlpha = 0.05 + 0.95 * weight;
          context.lineWidth = 0.6 + 3.4 * weight;
          context.beginPath();
          context.moveTo(0, from[query] + shift);
          context.bezierCurveTo(width * 0.4, from[query] + shift, width * 0.6, to[key] + shift, width, to[key] + shift);
          context.stroke();
        }
      }
    }
  }

  /** What part of the attention the lines leave out. */
  function undrawn() {
    const layer = layerIn(attention);
    const heads = headsIn(attention);
    let left = 0;
    for (const head of heads) {
      for (let query = 0; query < attention.queries.length; query++) {
        for (let key = 0; key < attention.keys.length; key++) {
          const weight = attention.weight(layer, head, query, key);
          if (weight < FAINTEST) left += weight;
        }
      }
    }
    return left / (heads.length * attention.queries.length);
  }

  function showPointed(at) {
    const layer = layerIn(attention);
    const heads = headsIn(attention);
    middle.classed("pointed", at !== null);
    const buttons = columns.selectAll("button.token");
    buttons
      .classed("active", (datum) => at !== null && samePlace(datum, at))
      .attr("aria-pressed", (datum) => String(pointer.isHeld(datum)));
    const share = (datum) => {
      if (at === null || datum.side === at.side) return null;
      const [query, key] = at.side === "query" ? [at.index, datum.index] : [datum.index, at.index];
      return attention.sees(query, key) ? attention.mean(layer, heads, query, key) : null;
    };
    buttons.style("--share", (datum) => `${100 * (share(datum) ?? 0)}%`);
    buttons.select(".amount").text((datum) => {
      const weight = share(datum);
      return weight === null ? "" : percent(weight);
    });
    aside.selectAll("*").remove();
    if (at === null) {
      strong.style("visibility", "hidden");
      listHeads(layer, heads);
      return;
    }
    strong.style("visibility", null);
    drawLines(strong.node(), at);
    // What is held here is what "Query and key" begins with.
    if (pointer.isHeld(at)) state[at.side] = at.index;
    const own = { [at.side]: at.index };
    weightTables(aside, attention, layer, heads, attention.self ? { query: at.index, key: at.index } : own);
  }

  function listHeads(layer, heads) {
    aside
      .append("p")
      .attr("class", "hint")
      .text("Point at a token to see its numbers. What these heads seem to do, by this sentence:");
    const items = aside
      .append("ul")
      .attr("class", "head-list")
      .selectAll("li")
      .data(heads)
      .join("li")
      .style("--colour", headColour);
    items.append("span").text((head) => `Head ${head + 1}: ${roleOf(attention, layer, head).name}`);
    items.append("span").text((head) => roleOf(attention, layer, head).figure);
  }

  return update;
}
