// The view "Overview": small maps of all heads of one kind, and a large map of one of them.

function overviewView(panel) {
  addHeading(
    panel,
    "All heads",
    "There is a row for each layer and a column for each head. In a map, each row is an attending token (query) and " +
      "each column an attended token (key). Click a map, or press Enter on it, to enlarge it.",
  );
  const showControls = attentionControls(panel, Object.keys(attentions));
  const layout = panel.append("div").attr("class", "overview");
  const grid = layout.append("div").attr("class", "thumbnails").attr("role", "group").attr("aria-label", "All heads");
  const large = layout.append("section").attr("class", "large").attr("aria-label", "One head");
  const title = large.append("h3");
  const readout = large.append("p").attr("class", "readout").attr("aria-live", "polite");
  const frame = large
    .append("div")
    .attr("class", "map")
    .attr("tabindex", 0)
    .attr("role", "application")
    .attr("aria-roledescription", "attention map");
  const canvas = frame.append("canvas");
  const axes = frame.append("svg").attr("aria-hidden", "true");
  const legend = large.append("div").attr("class", "legend");
  const updateTabOrder = rovingTabindex(grid.node(), "button", {
    columns: () => attention.heads,
    chosen: (item) => item.getAttribute("aria-pressed") === "true",
  });
  let attention;
  let cell;
  let origin;
  let cursor = null;

  function update() {
    const before = attention;
    attention = currentAttention(Object.keys(attentions));
    if (before !== attention) cursor = null;
    showControls(attention);
    const chosen = { layer: currentLayer(attention), head: currentHead(attention) };
    drawThumbnails(chosen);
    drawLarge(chosen);
    point(cursor);
  }

  function drawThumbnails(chosen) {
    const shape = attention.queries.length / attention.keys.length;
    const side = Math.max(28, Math.min(84, 500 / (attention.heads + 1)));
    const width = shape > 1 ? side / shape : side;
    const height = shape > 1 ? side : side * shape;
    grid.style("grid-template-columns", `auto repeat(${attention.heads}, max-content)`);
    const cells = [{ corner: true }, ...d3.range(attention.heads).map((head) => ({ top: head }))];
    for (const layer of d3.range(attention.layers)) {
      cells.push({ left: layer }, ...d3.range(attention.heads).map((head) => ({ layer, head })));
    }
    const tag = (datum) => (datum.layer === undefined ? "span" : "button");
    grid
      .selectAll(":scope > *")
      .data(cells, (datum) => JSON.stringify(datum))
      .join((enter) => enter.append((datum) => document.createElement(tag(datum))))
      .order()
      .each(function (datum) {
        const node = d3.select(this);
        if (datum.layer === undefined) {
          const text =
            datum.top !== undefined
              ? `Head ${datum.top + 1}`
              : datum.left !== undefined
                ? `Layer ${datum.left + 1}`
                : "";
          node.attr("class", "grid-label").text(text);
          return;
        }
        const { name, value } = roleOf(attention, datum.layer, datum.head);
        node
          .attr("type", "button")
          .attr("class", "thumbnail")
          .attr("aria-label", `Layer ${datum.layer + 1}, head ${datum.head + 1}: ${name}, ${value}`)
          .attr("title", `${name}, ${value}`)
          .attr("aria-pressed", String(datum.layer === chosen.layer && datum.head === chosen.head))
          .on("click", () => setState({ layer: datum.layer, head: datum.head }));
        if (node.select("canvas").empty()) node.append("canvas");
        const picture = node.select("canvas").node();
        paintMap(picture, datum.layer, datum.head);
        picture.style.width = `${width}px`;
        picture.style.height = `${height}px`;
      });
    updateTabOrder();
  }

  /** Draw a map with one pixel for each weight; the browser enlarges it. */
  function paintMap(picture, layer, head) {
    const [rows, columns] = [attention.queries.length, attention.keys.length];
    picture.width = columns;
    picture.height = rows;
    const context = picture.getContext("2d");
    const image = context.createImageData(columns, rows);
    const colours = shades();
    for (let query = 0; query < rows; query++) {
      for (let key = 0; key < columns; key++) {
        const shade = Math.round(255 * Math.min(attention.weight(layer, head, query, key), 1)) || 0;
        image.data.set(colours[shade], 4 * (query * columns + key));
      }
    }
    context.putImageData(image, 0, 0);
  }

  const shadesByTheme = {};
  function shades() {
    const theme = isDark() ? "dark" : "light";
    shadesByTheme[theme] ??= d3.quantize(mapColours(), 256).map((text) => {
      const { r, g, b } = d3.rgb(text);
      return [r, g, b, 255];
    });
    return shadesByTheme[theme];
  }

  function drawLarge({ layer, head }) {
    const { name, value } = roleOf(attention, layer, head);
    title.text(`Layer ${layer + 1}, head ${head + 1}: ${name}, ${value}`);
    frame.attr("aria-label", `Layer ${layer + 1}, head ${head + 1}; use the arrow keys to move between weights`);
    const [rows, columns] = [attention.queries.length, attention.keys.length];
    const room = Math.max(300, large.node().getBoundingClientRect().width - 120);
    cell = Math.max(12, Math.min(40, Math.floor(room / Math.max(rows, columns))));
    const longest = (tokens) => Math.min(130, 16 + 8 * d3.max(tokens, (token) => readable(token).length));
    origin = { x: longest(attention.queries), y: longest(attention.keys) };
    const width = origin.x + columns * cell + 60;
    const height = origin.y + rows * cell + 4;
    axes.attr("width", width).attr("height", height);
    const context = prepareCanvas(canvas.node(), width, height);
    const colours = mapColours();
    const numbers = cell >= 24;
    context.font = `${Math.round(cell * 0.36)}px system-ui, sans-serif`;
    context.textAlign = "center";
    context.textBaseline = "middle";
    for (let query = 0; query < rows; query++) {
      for (let key = 0; key < columns; key++) {
        const [x, y] = [origin.x + key * cell, origin.y + query * cell];
        if (!attention.canAttend(query, key)) {
          context.fillStyle = colourOf("--line");
          context.fillRect(x + cell / 2 - 1, y + cell / 2 - 1, 2, 2);
          continue;
        }
        const weight = attention.weight(layer, head, query, key);
        const colour = colours(Math.min(weight, 1));
        context.fillStyle = colour;
        context.fillRect(x, y, cell - 1, cell - 1);
        if (numbers && weight >= 0.005) {
          context.fillStyle = inkOn(colour);
          context.fillText((100 * weight).toFixed(0), x + cell / 2, y + cell / 2);
        }
      }
    }
    axes.selectAll("*").remove();
    const label = (tokens, name) =>
      axes
        .append("g")
        .selectAll("text")
        .data(tokens)
        .join("text")
        .attr("class", name)
        .attr("font-size", Math.min(13, cell))
        .text((token) => clipped(readable(token)));
    label(attention.queries, "row")
      .attr("text-anchor", "end")
      .attr("dominant-baseline", "central")
      .attr("x", origin.x - 8)
      .attr("y", (token, query) => origin.y + (query + 0.5) * cell);
    label(attention.keys, "column").attr(
      "transform",
      (token, key) => `translate(${origin.x + (key + 0.6) * cell},${origin.y - 8}) rotate(${cell < 20 ? -90 : -55})`,
    );
    axes
      .append("rect")
      .attr("class", "cursor")
      .attr("width", cell + 1)
      .attr("height", cell + 1);
    drawLegend(colours, numbers);
  }

  const clipped = (text) => ([...text].length > 14 ? `${[...text].slice(0, 13).join("")}…` : text);

  function drawLegend(colours, numbers) {
    legend.selectAll("*").remove();
    legend.append("span").text("0%");
    legend
      .append("span")
      .attr("class", "ramp")
      .style("background", `linear-gradient(90deg, ${d3.quantize(colours, 9).join(", ")})`);
    legend.append("span").text(`100%${numbers ? "; the numbers in the cells are percentages" : ""}`);
  }

  function point(at) {
    cursor = at;
    axes.select(".cursor").style("display", at ? null : "none");
    axes.selectAll("text.row").classed("active", (token, query) => at?.query === query);
    axes.selectAll("text.column").classed("active", (token, key) => at?.key === key);
    if (!at) {
      readout.text(
        "Point at a cell, or move between cells with the arrow keys. Click or press Enter to see its computation.",
      );
      return;
    }
    axes
      .select(".cursor")
      .attr("x", origin.x + at.key * cell - 1)
      .attr("y", origin.y + at.query * cell - 1);
    const weight = attention.weight(currentLayer(attention), currentHead(attention), at.query, at.key);
    writeParts(readout.node(), [
      { token: attention.queries[at.query] },
      " → ",
      { token: attention.keys[at.key] },
      attention.canAttend(at.query, at.key) ? `: ${percent(weight)}` : ": masked, because it is a later position",
    ]);
  }

  function cellOf(event) {
    const [x, y] = d3.pointer(event, canvas.node());
    const at = { query: Math.floor((y - origin.y) / cell), key: Math.floor((x - origin.x) / cell) };
    const inside =
      d3.range(attention.queries.length).includes(at.query) && d3.range(attention.keys.length).includes(at.key);
    return inside ? at : null;
  }

  const explain = (at) => {
    setState({ query: at.query, key: at.key, kind: attention.kind });
    openView("query-key");
  };
  frame
    .on("pointermove", (event) => point(cellOf(event)))
    .on("pointerleave", () => point(null))
    .on("focus", () => frame.node().matches(":focus-visible") && point(cursor ?? { query: 0, key: 0 }))
    .on("blur", () => point(null))
    .on("click", (event) => cellOf(event) && explain(cellOf(event)))
    .on("keydown", (event) => {
      if (event.altKey || event.ctrlKey || event.metaKey) return;
      const at = cursor ?? { query: 0, key: 0 };
      const [down, right] = { ArrowUp: [-1, 0], ArrowDown: [1, 0], ArrowLeft: [0, -1], ArrowRight: [0, 1] }[
        event.key
      ] ?? [0, 0];
      if (event.key === "Enter") return explain(at);
      if (!down && !right) return;
      event.preventDefault();
      const clamp = (index, count) => Math.max(0, Math.min(count - 1, index));
      point({
        query: clamp(at.query + down, attention.queries.length),
        key: clamp(at.key + right, attention.keys.length),
      });
    });

  return update;
}
