// The view "Translation": source and output in two rows, connected by the encoder-decoder attention.

// Lines for smaller weights are not drawn.
const DRAWN_FROM = 0.08;

function translationView(panel) {
  addHeading(
    panel,
    "Attention from the output to the source",
    "The encoder–decoder attention connects each word of the output with words of the source. Point at a word on " +
      "either side to see its weights. Below each word of the output is the source word with the largest weight.",
  );
  const attention = attentions.encoder_decoder;
  if (!attention) {
    addNote(panel, "This model has no encoder–decoder attention, so there are no weights between output and source.");
    return () => {};
  }
  const bar = panel.append("div").attr("class", "controls");
  const chosen = { layer: "mean", head: "mean", unit: "words" };
  const choose = (name) => (value) => {
    chosen[name] = value;
    pointer.forget();
    update();
  };
  const showLayers = radioGroup(bar, "Layer", choose("layer"));
  const showHeads = radioGroup(bar, "Head", choose("head"));
  const showUnits = radioGroup(bar, "Show", choose("unit"));
  const stage = panel.append("div").attr("class", "interlinear");
  const canvas = stage.append("canvas").attr("aria-hidden", "true");
  const rows = {
    source: stage.append("div").attr("class", "word-row").attr("role", "group").attr("aria-label", "Source"),
    output: stage.append("div").attr("class", "word-row").attr("role", "group").attr("aria-label", "Output"),
  };
  const tabOrderUpdates = Object.values(rows).map((row) => rovingTabindex(row.node(), "button"));
  const readout = panel.append("p").attr("class", "readout").attr("aria-live", "polite");
  const steps = panel.append("section").attr("class", "steps");
  steps.append("h3").text("Most probable tokens at each position");
  steps
    .append("p")
    .attr("class", "lead")
    .text("For each position: the token of the output, and the most probable tokens under the model.");
  const markSteps = candidateSteps(steps);
  const sameWord = (a, b) => a.side === b.side && a.index === b.index;
  const pointer = trackPointer(stage.node(), "button.token", draw, sameWord);
  let weights;
  let units;

  function update() {
    const withMean = (count, name) => [
      { value: "mean", text: "mean" },
      ...d3
        .range(count)
        .map((value) => ({ value, text: value + 1, colour: name === "head" ? headColour(value) : undefined })),
    ];
    showLayers(withMean(attention.layers, "layer"), chosen.layer);
    showHeads(withMean(attention.heads, "head"), chosen.head);
    showUnits(
      ["words", "tokens"].map((unit) => ({ value: unit, text: unit })),
      chosen.unit,
    );
    const { source, predicted } = payload.rows;
    const single = (row) => ({ texts: row.tokens, starts: d3.range(row.tokens.length), tokens: row.tokens.length });
    const merged = (row) => ({ texts: row.words, starts: row.starts, tokens: row.tokens.length });
    const unit = chosen.unit === "words" ? merged : single;
    units = { source: unit(source), output: unit(predicted) };
    const layers = chosen.layer === "mean" ? d3.range(attention.layers) : [chosen.layer];
    const heads = chosen.head === "mean" ? d3.range(attention.heads) : [chosen.head];
    weights = mergeWords(
      (query, key) => d3.mean(layers, (layer) => attention.mean(layer, heads, query, key)),
      units.output.starts,
      units.output.tokens,
      units.source.starts,
      units.source.tokens,
    );
    drawRow("source", units.source.texts);
    drawRow("output", units.output.texts);
    draw(pointer.current());
  }

  function drawRow(side, texts) {
    rows[side].attr("dir", directionOf(texts));
    const buttons = rows[side]
      .selectAll("button")
      .data(texts.map((text, index) => ({ text, index, side })))
      .join((enter) => {
        const button = enter.append("button").attr("type", "button").attr("class", "token");
        button.append("span").attr("class", "word");
        button.append("span").attr("class", "gloss");
        button.append("span").attr("class", "amount");
        return button;
      })
      .attr("data-index", ({ index }) => index)
      .attr("data-side", side);
    buttons.select(".word").each(function ({ text }) {
      writeToken(this, text);
    });
    if (side === "output") {
      buttons
        .select(".gloss")
        .attr("dir", "auto")
        .text(({ index }) => {
          const best = d3.maxIndex(weights[index]);
          return best < 0 ? "" : readable(units.source.texts[best]);
        });
    }
    tabOrderUpdates.forEach((updateTabOrder) => updateTabOrder());
  }

  function draw(at) {
    const share = (datum) => {
      if (at === null || at.side === datum.side) return null;
      return at.side === "output" ? weights[at.index][datum.index] : weights[datum.index][at.index];
    };
    const buttons = stage
      .selectAll("button.token")
      .classed("active", (datum) => at !== null && sameWord(at, datum))
      .attr("aria-pressed", (datum) => String(pointer.isPinned(datum)))
      .style("--share", (datum) => `${100 * (share(datum) ?? 0)}%`);
    buttons.select(".amount").text((datum) => (share(datum) === null ? "" : percent(share(datum))));
    drawLinks(at);
    const { starts, tokens } = units.output;
    if (at?.side === "output") markSteps(starts[at.index], starts[at.index + 1] ?? tokens);
    else markSteps(0, 0);
    if (at === null) {
      readout.text("Point at a word to see its largest weights.");
      return;
    }
    const others = (at.side === "output" ? units.source : units.output).texts.map((text, index) => ({
      text,
      share: at.side === "output" ? weights[at.index][index] : weights[index][at.index],
    }));
    const parts = [
      { token: units[at.side].texts[at.index] },
      at.side === "output" ? " attends to " : " is attended to by ",
    ];
    for (const [i, other] of d3
      .sort(others, (a, b) => d3.descending(a.share, b.share))
      .slice(0, 5)
      .entries()) {
      parts.push(i ? ", " : "", { token: other.text }, ` ${percent(other.share)}`);
    }
    writeParts(readout.node(), parts);
  }

  function drawLinks(at) {
    const box = stage.node().getBoundingClientRect();
    const context = prepareCanvas(canvas.node(), box.width, box.height);
    const boxes = Object.fromEntries(
      Object.entries(rows).map(([side, row]) => [
        side,
        row
          .selectAll("button")
          .nodes()
          .map((node) => {
            const own = node.getBoundingClientRect();
            return { x: (own.left + own.right) / 2 - box.left, top: own.top - box.top, bottom: own.bottom - box.top };
          }),
      ]),
    );
    const oneLine = (row) => row.every(({ top }) => Math.abs(top - row[0].top) < 4);
    // Between wrapped rows, lines would cross words: then only the lines of the active word are drawn.
    if (at === null && !Object.values(boxes).every(oneLine)) return;
    context.strokeStyle = chosen.head === "mean" ? colourOf("--accent") : headColour(chosen.head);
    context.lineCap = "round";
    for (const [query, row] of weights.entries()) {
      for (const [key, weight] of row.entries()) {
        if (weight < DRAWN_FROM) continue;
        const touched = at === null || (at.side === "output" ? query : key) === at.index;
        if (!touched && at !== null) continue;
        const [from, to] = [boxes.output[query], boxes.source[key]];
        const middle = (from.top + to.bottom) / 2;
        context.globalAlpha = 0.08 + 0.8 * weight;
        context.lineWidth = 1 + 9 * weight;
        context.beginPath();
        context.moveTo(from.x, from.top);
        context.bezierCurveTo(from.x, middle, to.x, middle, to.x, to.bottom);
        context.stroke();
      }
    }
  }

  return update;
}
