// The view "Query and key": the computation of one weight, from the products to the softmax.

function queryKeyView(panel) {
  addHeading(
    panel,
    "Computation of one weight",
    "A query and a key are multiplied element by element. The sum of the products, divided by the square root of " +
      "their length, is the attention score. The softmax converts the attention scores of all keys into weights. All " +
      "values below are computed in this page from the captured queries and keys. The weight in the model is shown " +
      "next to the computed weight.",
  );
  const kinds = Object.keys(attentions).filter((kind) => attentions[kind].width !== null);
  if (!kinds.length) {
    addNote(
      panel,
      "This page does not contain queries and keys. The attention of a recurrent model has none, and compressed " +
        "attention has none for single tokens. For other models, they are captured if details are requested:",
      `${MAKER}.attention(text, details=True).save("page.html")`,
    );
    return () => {};
  }
  const showControls = attentionControls(panel, kinds, { heads: "one" });
  const chooseQuery = tokenChoice("Query", (query) => setState({ query }));
  const chooseKey = tokenChoice("Key", (key) => setState({ key }));
  const products = panel.append("section").attr("class", "step");
  products.append("h3").text("1. Multiply element by element");
  const readout = products.append("p").attr("class", "readout").attr("aria-live", "polite");
  const bars = products.append("div").attr("class", "bars").attr("tabindex", 0).attr("role", "application");
  const sum = panel.append("section").attr("class", "step");
  sum.append("h3").text("2. Sum and scale");
  const formula = sum.append("p").attr("class", "formula");
  const softmax = panel.append("section").attr("class", "step");
  softmax.append("h3").text("3. Apply the softmax over all keys");
  const both = softmax.append("p").attr("class", "both").attr("aria-live", "polite");
  const keys = softmax.append("div").attr("class", "scroll").append("table").attr("class", "softmax");
  let attention;
  let dimension = null;
  let moveTo = () => {};

  function tokenChoice(label, choose) {
    const row = panel.append("div").attr("class", "token-choice");
    const id = `choice-${label}`;
    row.append("span").attr("class", "label").attr("id", id).text(label);
    const group = row.append("div").attr("class", "token-row").attr("role", "radiogroup").attr("aria-labelledby", id);
    const updateTabOrder = rovingTabindex(group.node(), "button", {
      chosen: (item) => item.getAttribute("aria-checked") === "true",
      moved: (item) => item.click(),
    });
    return (tokens, chosen, possible) => {
      group.attr("dir", directionOf(tokens));
      group
        .selectAll("button")
        .data(tokens)
        .join((enter) => enter.append("button").attr("type", "button").attr("class", "token").attr("role", "radio"))
        .each(function (token) {
          writeToken(this, token);
        })
        .attr("data-index", (token, index) => index)
        .attr("aria-checked", (token, index) => String(index === chosen))
        .classed("unseen", (token, index) => !possible(index))
        .on("click", (event) => choose(Number(event.currentTarget.dataset.index)));
      updateTabOrder();
    };
  }

  function update() {
    attention = currentAttention(kinds);
    showControls(attention);
    const [layer, head] = [currentLayer(attention), currentHead(attention)];
    const [query, key] = [currentQuery(attention), currentKey(attention)];
    chooseQuery(attention.queries, query, () => true);
    chooseKey(attention.keys, key, (index) => attention.canAttend(query, index));
    const q = attention.vector("query", layer, head, query);
    const scores = d3.range(attention.keys.length).map((other) => {
      if (!attention.canAttend(query, other)) return -Infinity;
      const k = attention.vector("key", layer, head, other);
      const bias = attention.hasBias ? attention.bias(layer, head, query, other) : 0;
      return d3.sum(q, (value, i) => value * k[i]) * attention.scale + bias;
    });
    drawProducts(q, attention.vector("key", layer, head, key));
    writeFormula(layer, head, query, key, q);
    drawSoftmax(layer, head, query, key, scores);
  }

  function drawProducts(q, k) {
    const product = q.map((value, i) => value * k[i]);
    const K = q.length;
    const width = Math.max(320, bars.node().getBoundingClientRect().width);
    const left = 74;
    const x = d3.scaleBand(d3.range(K), [left, width]).paddingInner(K > 160 ? 0 : 0.18);
    const row = 72;
    bars.attr("aria-label", `${K} elements of query, key and product; use the left and right arrow keys to move`);
    bars.selectAll("*").remove();
    const svg = bars
      .append("svg")
      .attr("width", width)
      .attr("height", 3 * row + 22)
      .attr("aria-hidden", "true");
    const cursor = svg
      .append("rect")
      .attr("class", "dimension")
      .attr("height", 3 * row)
      .attr("width", Math.max(2, x.bandwidth()));
    const size = Math.max(d3.max(q, Math.abs), d3.max(k, Math.abs)) || 1;
    const lines = [
      { name: "query", values: q, size },
      { name: "key", values: k, size },
      { name: "q × k", values: product, size: d3.max(product, Math.abs) || 1 },
    ];
    for (const [at, { name, values, size: largest }] of lines.entries()) {
      const y = d3.scaleLinear([-largest, largest], [row - 6, 6]);
      const g = svg.append("g").attr("transform", `translate(0,${at * row})`);
      g.append("text")
        .attr("class", "bar-label")
        .attr("x", 0)
        .attr("y", row / 2)
        .attr("dominant-baseline", "central")
        .text(name);
      g.append("line").attr("class", "zero").attr("x1", left).attr("x2", width).attr("y1", y(0)).attr("y2", y(0));
      g.selectAll("rect")
        .data(values)
        .join("rect")
        .attr("class", (value) => (value < 0 ? "negative" : "positive"))
        .attr("x", (value, i) => x(i))
        .attr("width", Math.max(0.5, x.bandwidth()))
        .attr("y", (value) => Math.min(y(0), y(value)))
        .attr("height", (value) => Math.abs(y(value) - y(0)));
    }
    const every = Math.ceil(K / (width / 60) / 8) * 8;
    svg
      .append("g")
      .selectAll("text")
      .data(d3.range(0, K, every))
      .join("text")
      .attr("class", "tick")
      .attr("text-anchor", "middle")
      .attr("x", (i) => x(i) + x.bandwidth() / 2)
      .attr("y", 3 * row + 14)
      .text((i) => i + 1);
    moveTo = (to) => {
      dimension = to === null ? null : Math.max(0, Math.min(K - 1, to));
      cursor.style("display", dimension === null ? "none" : null);
      if (dimension === null) {
        readout.text(
          `${K} elements each; positive values point up, negative values down. Point at a column to see its values.`,
        );
        return;
      }
      cursor.attr("x", x(dimension));
      const [a, b, c] = [q, k, product].map((values) => fixed(values[dimension], 3));
      readout.text(`Element ${dimension + 1} of ${K}: ${a} × ${b} = ${c}`);
    };
    moveTo(dimension);
    svg.on("pointermove", (event) => moveTo(Math.floor(((d3.pointer(event)[0] - left) / (width - left)) * K)));
  }

  bars
    .on("pointerleave", () => moveTo(null))
    .on("focus", () => bars.node().matches(":focus-visible") && moveTo(dimension ?? 0))
    .on("blur", () => moveTo(null))
    .on("keydown", (event) => {
      const step = { ArrowLeft: -1, ArrowRight: 1 }[event.key];
      if (!step) return;
      event.preventDefault();
      moveTo((dimension ?? 0) + step);
    });

  function writeFormula(layer, head, query, key, q) {
    const k = attention.vector("key", layer, head, key);
    const dot = d3.sum(q, (value, i) => value * k[i]);
    const scaled = dot * attention.scale;
    const usual = Math.abs(attention.scale * Math.sqrt(attention.width) - 1) < 1e-6;
    formula.text(null);
    const math = (text) => formula.append("var").text(text);
    const plain = (text) => formula.append("span").text(text);
    math("q·k");
    plain(` = ${fixed(dot, 3)}`);
    plain("⟶").attr("class", "arrow");
    math("q·k");
    const factor = usual ? `/ √${attention.width}` : `× ${Number(attention.scale.toPrecision(4))}`;
    plain(` ${factor} = ${fixed(scaled, 3)}`);
    if (attention.hasBias) {
      const bias = attention.bias(layer, head, query, key);
      plain("⟶").attr("class", "arrow");
      plain(`${fixed(scaled, 3)} + ${fixed(bias, 3)} for their distance = ${fixed(scaled + bias, 3)}`);
    }
  }

  function drawSoftmax(layer, head, query, key, scores) {
    const largest = d3.max(scores);
    const powers = scores.map((score) => Math.exp(score - largest));
    const total = d3.sum(powers);
    const captured = (other) => attention.weight(layer, head, query, other);
    both.text(null);
    const pair = (name, text) => {
      const box = both.append("span");
      box.append("span").attr("class", "label").text(name);
      box.append("strong").attr("data-name", name).text(text);
    };
    if (attention.canAttend(query, key)) {
      pair("computed here", percent(powers[key] / total));
      pair("in the model", percent(captured(key)));
    } else {
      both.append("span").text("This key is at a later position than the query: the mask sets its weight to 0.");
    }
    keys.selectAll("*").remove();
    const top = keys.append("thead").append("tr");
    for (const name of ["key", "score", "exp(score − largest)", "weight", "in the model"])
      top.append("th").attr("scope", "col").text(name);
    const lines = keys
      .append("tbody")
      .selectAll("tr")
      .data(d3.range(attention.keys.length).filter((other) => attention.canAttend(query, other)))
      .join("tr")
      .classed("chosen", (other) => other === key)
      .style("--colour", headColour(head));
    lines
      .append("th")
      .attr("scope", "row")
      .append("bdi")
      .attr("class", "word")
      .each(function (other) {
        writeToken(this, attention.keys[other]);
      });
    lines.append("td").text((other) => fixed(scores[other], 3));
    lines.append("td").text((other) => fixed(powers[other], 3));
    const weight = lines
      .append("td")
      .attr("class", "bar")
      .style("--share", (other) => `${(100 * powers[other]) / total}%`);
    weight.append("span").text((other) => percent(powers[other] / total));
    lines.append("td").text((other) => percent(captured(other)));
  }

  return update;
}
