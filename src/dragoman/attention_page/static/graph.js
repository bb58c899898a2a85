// The view "Graph": the tokens of a sentence in a row, and arcs from each to the tokens that it attends to.

function graphView(panel) {
  addHeading(
    panel,
    "Self-attention as a graph",
    "Each arc is a weight of the self-attention, with an arrow at the attended token. Arcs above the tokens lead to " +
      "earlier tokens, arcs below to later tokens, and small circles to the token itself.",
  );
  const kinds = Object.keys(attentions).filter((kind) => attentions[kind].self);
  const shown = kinds.length ? kinds : Object.keys(attentions);
  const showControls = attentionControls(panel, shown, { heads: "many" });
  let threshold = 0.25;
  let attention;
  let arcs = [];
  let space;
  if (!kinds.length) {
    addNote(
      panel,
      "This model has no self-attention, so there are no arcs to draw.",
    );
  }
  const drawing = panel
    .append("div")
    .attr("class", "graph")
    .attr("hidden", kinds.length ? null : "");
  const slider = drawing.append("label").attr("class", "slider");
  slider.append("span").attr("class", "label").text("Smallest weight shown");
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
  const updateTabOrder = rovingTabindex(words.node(), "button");
  const pointer = trackPointer(words.node(), "button.token", showActive);
  panel.append("h3").text("Roles of the heads");
  panel
    .append("p")
    .attr("class", "lead")
    .text(
      "A head is named after the tokens that receive most of its weight in this sentence, if this is at least " +
        `${percent(payload.roles.namedFrom, 0)}. Otherwise it is broad if its evenness (from 0 to 1) is at least ` +
        `${payload.roles.broadFrom}, and mixed if it is lower. In other sentences, a head may have another role.`,
    );
  const roles = panel.append("div").attr("class", "scroll").append("table").attr("class", "roles");

  function update() {
    const before = attention;
    attention = currentAttention(shown);
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
    updateTabOrder();
    layOut();
  }

  /** Select the arcs to draw, and reserve space for them. */
  function layOut() {
    const layer = currentLayer(attention);
    const heads = currentHeads(attention);
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
    for (const [i, head] of heads.entries()) {
      const shift = (i - (heads.length - 1) / 2) * Math.min(3, 16 / heads.length);
      for (let query = 0; query < middles.length; query++) {
        for (let key = 0; key < middles.length; key++) {
          const weight = attention.weight(layer, head, query, key);
          if (weight < threshold) continue;
          const [from, to] = [middles[query] + shift, middles[key] + shift];
          arcs.push({ head, query, key, weight, from, to });
        }
      }
    }
    // The space on each side depends on the widest arc.
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
    showActive(pointer.current());
  }

  function showActive(at) {
    stage.classed("pointed", at !== null);
    words
      .selectAll("button")
      .classed("active", (index) => index === at)
      .attr("aria-pressed", (index) => String(pointer.isPinned(index)));
    numbers.selectAll("*").remove();
    strong.style("visibility", at === null ? "hidden" : null);
    if (at === null) {
      const hint = "Point at a token to see only its arcs and their weights.";
      numbers
        .append("p")
        .attr("class", "hint")
        .text(arcs.length ? hint : "No weight is above the threshold: lower the threshold.");
      return;
    }
    drawArcs(strong.node(), at);
    weightTables(numbers, attention, currentLayer(attention), currentHeads(attention), { query: at, key: at });
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
        return `Means: ${bits}, distance ${fixed(distance, 1)} tokens, largest weight ${percent(confidence, 0)}`;
      })
      .attr("aria-pressed", ({ layer, head }) => {
        const heads = currentHeads(attention);
        return String(layer === currentLayer(attention) && heads.length === 1 && heads[0] === head);
      })
      .on("click", (event, { layer, head }) => {
        setState({ layer, head, heads: new Set([head]) });
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
      .attr("class", "role-value")
      .text(({ layer, head }) => roleOf(attention, layer, head).value);
    updateTabOrderOfRoles();
  }

  const updateTabOrderOfRoles = rovingTabindex(roles.node(), "button", { columns: () => attention.heads });

  return update;
}
