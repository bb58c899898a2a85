// The view "Heads": two columns of tokens and a line for every weight.

// Lines for smaller weights are not drawn: they would take most of the drawing time and are hardly visible.
const SMALLEST_DRAWN = 0.02;
const COLUMN_CONTENTS = {
  encoder_self: `Both columns are the ${isText ? "text" : "source"}.`,
  decoder_self: isText
    ? `Both columns are the ${translates ? "source, then the output" : "text"}. A token attends to itself and to earlier tokens.`
    : "Both columns are the input of the decoder: the start symbol, then the output.",
  encoder_decoder: "The left column is the output (the token predicted at each position); the right one is the source.",
};

function headsView(panel) {
  addHeading(
    panel,
    "Attention weights",
    "Every line is an attention weight, from the attending token (query) on the left to the attended token (key) on " +
      "the right. Stronger lines are larger weights; each head has its own colour. Point at a token, or move to it " +
      "with Tab and the arrow keys, to see only its weights; click to pin it.",
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
  const sides = { query: column("query", "attends") };
  const middle = columns.append("div").attr("class", "lines").attr("aria-hidden", "true");
  const [faint, strong] = [0, 1].map(() => middle.append("canvas"));
  sides.key = column("key", "is attended to");
  const footnote = main.append("p").attr("class", "footnote");
  const tabOrderUpdates = Object.values(sides).map((side) =>
    rovingTabindex(side.node(), "button", { columns: () => 1 }),
  );
  const pointer = trackPointer(columns.node(), "button.token", showActive, sameToken);
  let attention;
  let endpoints;

  // The left and right arrow keys move to the other column, to the token with the same index.
  const crossOver = (event) => {
    const to = { ArrowLeft: "query", ArrowRight: "key" }[event.key];
    if (!to) return;
    event.preventDefault();
    event.stopPropagation();
    const others = sides[to].selectAll("button").nodes();
    others[Math.min(d3.select(event.target).datum().index, others.length - 1)].focus();
  };
  columns.on("keydown", crossOver, true);

  function sameToken(a, b) {
    return a.side === b.side && a.index === b.index;
  }

  function update() {
    const before = attention;
    attention = currentAttention(Object.keys(attentions));
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
    tabOrderUpdates.forEach((updateTabOrder) => updateTabOrder());
    endpoints = measure();
    drawLines(faint.node(), null);
    footnote.text(
      `${COLUMN_CONTENTS[attention.kind]} Weights below ${percent(SMALLEST_DRAWN, 0)} are not drawn; ` +
        `together they are ${percent(undrawnShare(), 0)} of the attention shown here. ` +
        "Click a head to show or hide it; Shift-click or double-click to show only this head.",
    );
    showActive(pointer.current());
  }

  /** Return the coordinates at which the lines start and end. */
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
    const layer = currentLayer(attention);
    const heads = currentHeads(attention);
    const { width, from, to } = endpoints;
    const context = prepareCanvas(canvas, width, Math.max(...from, ...to) + 16);
    // The lines of different heads between the same tokens are drawn side by side.
    const spacing = Math.min(2.4, 14 / heads.length);
    for (const [i, head] of heads.entries()) {
      const shift = (i - (heads.length - 1) / 2) * spacing;
      context.strokeStyle = headColour(head);
      for (let query = 0; query < from.length; query++) {
        if (at?.side === "query" && at.index !== query) continue;
        for (let key = 0; key < to.length; key++) {
          if (at?.side === "key" && at.index !== key) continue;
          const weight = attention.weight(layer, head, query, key);
          if (weight < SMALLEST_DRAWN) continue;
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

  /** Return the share of the attention whose lines are not drawn. */
  function undrawnShare() {
    const layer = currentLayer(attention);
    const heads = currentHeads(attention);
    let sum = 0;
    for (const head of heads) {
      for (let query = 0; query < attention.queries.length; query++) {
        for (let key = 0; key < attention.keys.length; key++) {
          const weight = attention.weight(layer, head, query, key);
          if (weight < SMALLEST_DRAWN) sum += weight;
        }
      }
    }
    return sum / (heads.length * attention.queries.length);
  }

  function showActive(at) {
    const layer = currentLayer(attention);
    const heads = currentHeads(attention);
    middle.classed("pointed", at !== null);
    const buttons = columns.selectAll("button.token");
    buttons
      .classed("active", (datum) => at !== null && sameToken(datum, at))
      .attr("aria-pressed", (datum) => String(pointer.isPinned(datum)));
    const share = (datum) => {
      if (at === null || datum.side === at.side) return null;
      const [query, key] = at.side === "query" ? [at.index, datum.index] : [datum.index, at.index];
      return attention.canAttend(query, key) ? attention.mean(layer, heads, query, key) : null;
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
    // A pinned token becomes the selection of the view "Query and key".
    if (pointer.isPinned(at)) state[at.side] = at.index;
    const own = { [at.side]: at.index };
    weightTables(aside, attention, layer, heads, attention.self ? { query: at.index, key: at.index } : own);
  }

  function listHeads(layer, heads) {
    aside
      .append("p")
      .attr("class", "hint")
      .text("Point at a token to see its weights. Roles of these heads in this sentence:");
    const items = aside
      .append("ul")
      .attr("class", "head-list")
      .selectAll("li")
      .data(heads)
      .join("li")
      .style("--colour", headColour);
    items.append("span").text((head) => `Head ${head + 1}: ${roleOf(attention, layer, head).name}`);
    items.append("span").text((head) => roleOf(attention, layer, head).value);
  }

  return update;
}
