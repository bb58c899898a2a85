// A sentence as a graph: its words in a row, and arcs from each to what it looks at.

function graphView(panel) {
  lead(
    panel,
    "A sentence as a graph",
    "Self-attention joins every token of a sentence to every other, softly. Arcs above the words look back, arcs " +
      "below look ahead, small rings look at their own token; arrows point at what is looked at.",
  );
  const kinds = Object.keys(attentions).filter((kind) => attentions[kind].self);
  const shown = kinds.length ? kinds : Object.keys(attentions);
  const showControls = attentionControls(panel, shown, { heads: "many" });
  let threshold = 0.25;
  let attention;
  let arcs = [];
  let space;
  if (!kinds.length) {
    note(
      panel,
      "This model has no self-attention: its sentences are read by other means, and there are no arcs to draw.",
    );
  }
  const drawing = panel
    .append("div")
    .attr("class", "graph")
    .attr("hidden", kinds.length ? null : "");
  const slider = drawing.append("label").attr("class", "slider");
  slider.append("span").attr("class", "label").text("Arcs from");
  const range = slider
    .append("input")
    .attr("type", "range")
    .attr("min", 5)
    .attr("max", 90)
    .attr("step", 1)
    .property("value", 100 * threshold);
  const reading = slider.append("output");
  range.on("input", () => {
    threshold = range.property("value") / 100;
    layOut();
  });
  const scroll = drawing.append("div").attr("class", "scroll arcs");
  const stage = scroll.append("div").attr("class", "stage");
  const [faint, strong] = [0, 1].map(() => stage.append("canvas").attr("aria-hidden", "true"));
  const words = stage.append("div").attr("class", "word-row").attr("role", "group").attr("aria-label", "Tokens");
  const numbers = drawing.append("div").attr("class", "two");
  const settle = roving(words.node(), "button");
  const pointer = pointing(words.node(), "button.token", showPointed);
  panel.append("h3").text("What each head seems to do");
  panel
    .append("p")
    .attr("class", "lead")
    .text(
      "Named after what gets most of its weight in this sentence, if that is " +
        `${percent(payload.roles.namedFrom, 0)} or more; else by how evenly it looks around: broad from an evenness of ` +
        `${payload.roles.broadFrom}, of 1 at most. One sentence is a hint, not a proof.`,
    );
  const roles = panel.append("div").attr("class", "scroll").append("table").attr("class", "roles");

  function update() {
    const before = attention;
    attention = attentionAmong(shown);
    if (before !== attention) pointer.forget();
    showControls(attention);
    drawRoles();
    if (!kinds.length) return;
    words.attr("dir", directionOf(attention.queries));
    words
      .selectAll("button")
      .data(d3.range(attention.queries.length))
      .join((enter) => enter.append("button").attr("type", "button").attr("class", "token"))
      .attr("data-index", (index) => index)
      .each(function (index) {
        writeToken(this, attention.queries[index]);
      });
    settle();
    layOut();
  }

  /** Choose the arcs, and make room for them. */
  function layOut() {
    const layer = layerIn(attention);
    const heads = headsIn(attention);
    reading.text(percent(threshold, 0));
    const box = stage.node().getBoundingClientRect();
    const middles = words
      .selectAll("button")
      .nodes()
      .map((node) => {
        const own = node.getBoundingClientRect();
        return (own.left + own.right) / 2 - box.left;
      });
    arcs = [];
    for (const [place, head] of heads.entries()) {
      const shift = (place - (heads.length - 1) / 2) * Math.min(3, 16 / heads.length);
      for (let query = 0; query < middles.length; query++) {
        for (let key = 0; key < middles.length; key++) {
          const weight = attention.weight(layer, head, query, key);
          if (weight < threshold) continue;
          const [from, to] = [middles[query] + shift, middles[key] + shift];
          arcs.push({ head, query, key, weight, from, to });
        }
      }
    }
    // As high as the widest arcs need, on each side.
    const width = (arc) => Math.abs(arc.from - arc.to);
    const widest = d3.max(arcs, width) || 1;
    for (const arc of arcs) arc.height = 14 + (Math.min(170, 0.4 * widest) * width(arc)) / widest;
    const reach = (test) => d3.max(arcs.filter(test), (arc) => arc.height) ?? 0;
    const above = Math.max(28, reach((arc) => arc.key <= arc.query) + 12);
    const below = Math.max(12, reach((arc) => arc.key > arc.query) + 12);
    words.style("margin-top", `${above}px`).style("margin-bottom", `${below}px`);
    const line = words.node().getBoundingClientRect().height;
    space = { width: stage.node().scrollWidth, height: above + line + below, top: above, bottom: above + line };
    drawArcs(faint.node(), null);
    showPointed(pointer.current());
  }

  function showPointed(at) {
    stage.classed("pointed", at !== null);
    words
      .selectAll("button")
      .classed("active", (index) => index === at)
      .attr("aria-pressed", (index) => String(pointer.isHeld(index)));
    numbers.selectAll("*").remove();
    strong.style("visibility", at === null ? "hidden" : null);
    if (at === null) {
      const some = "Point at a token to see only its arcs, with the numbers.";
      numbers
        .append("p")
        .attr("class", "hint")
        .text(arcs.length ? some : "No weight is so large: lower the threshold.");
      return;
    }
    drawArcs(strong.node(), at);
    weightTables(numbers, attention, layerIn(attention), headsIn(attention), { query: at, key: at });
  }

  function drawArcs(canvas, at) {
    const context = prepareCanvas(canvas, space.width, space.height);
    for (const arc of arcs) {
      if (at !== null && arc.query !== at && arc.key !== at) continue;
      context.globalAlpha = 0.2 + 0.8 * arc.weight;
      context.lineWidth = 0.7 + 2.8 * arc.weight;
      context.strokeStyle = context.fillStyle = headColour(arc.head);
      drawArc(context, arc);
    }
  }

  function drawArc(context, { query, key, from, to, height }) {
    context.beginPath();
    if (query === key) {
      context.arc(from, space.top - 9, 6, 0, 2 * Math.PI);
      context.stroke();
      return;
    }
    const side = key < query ? -1 : 1;
    const edge = key < query ? space.top - 2 : space.bottom + 2;
    const peak = edge + side * height * 1.3;
    const tip = edge + side * 5;
    context.moveTo(from, edge);
    context.bezierCurveTo(from, peak, to, peak, to, tip);
    context.stroke();
    context.beginPath();
    context.moveTo(to, edge);
    context.lineTo(to - 3.2, tip + side * 2);
    context.lineTo(to + 3.2, tip + side * 2);
    context.fill();
  }

  function drawRoles() {
    roles.selectAll("*").remove();
    const top = roles.append("thead").append("tr");
    top.append("th");
    for (const head of d3.range(attention.heads)) {
      top
        .append("th")
        .attr("scope", "col")
        .attr("class", "head")
        .style("--colour", headColour(head))
        .text(`Head ${head + 1}`);
    }
    const rows = roles.append("tbody").selectAll("tr").data(d3.range(attention.layers)).join("tr");
    rows
      .append("th")
      .attr("scope", "row")
      .text((layer) => `Layer ${layer + 1}`);
    const cells = rows
      .selectAll("td")
      .data((layer) => d3.range(attention.heads).map((head) => ({ layer, head })))
      .join("td");
    const buttons = cells
      .append("button")
      .attr("type", "button")
      .attr("class", ({ layer, head }) => `role ${roleOf(attention, layer, head).role}`)
      .attr("title", ({ layer, head }) => {
        const { entropy, distance, confidence } = attention.statistics(layer, head);
        const bits = `entropy ${fixed(entropy, 2)} bits`;
        return `${bits}, ${fixed(distance, 1)} tokens away, largest weight ${percent(confidence, 0)} (means)`;
      })
      .attr("aria-pressed", ({ layer, head }) => {
        const heads = headsIn(attention);
        return String(layer === layerIn(attention) && heads.length === 1 && heads[0] === head);
      })
      .on("click", (event, { layer, head }) => {
        change({ layer, head, heads: new Set([head]) });
        roles
          .selectAll("button")
          .filter((datum) => datum.layer === layer && datum.head === head)
          .node()
          .focus();
      });
    buttons
      .append("span")
      .attr("class", "role-name")
      .text(({ layer, head }) => roleOf(attention, layer, head).name);
    buttons
      .append("span")
      .attr("class", "role-figure")
      .text(({ layer, head }) => roleOf(attention, layer, head).figure);
    settleRoles();
  }

  const settleRoles = roving(roles.node(), "button", { columns: () => attention.heads });

  return update;
}
