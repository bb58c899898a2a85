// Tables of weights beside a picture: what a token attends to, and which tokens attend to it.

const ROWS = 12;

/**
 * Add a table of tokens with their weights, with a column for each head and the largest mean first. Returns a summary
 * for screen readers.
 */
function weightTable(parent, caption, rows, heads) {
  const sorted = d3.sort(rows, (a, b) => d3.descending(a.mean, b.mean));
  const shown = sorted.slice(0, sorted.length > ROWS + 1 ? ROWS : ROWS + 1);
  const box = parent.append("div").attr("class", "weights");
  writeParts(box.append("p").attr("class", "caption").node(), caption);
  const table = box.append("div").attr("class", "scroll").append("table");
  const several = heads.length > 1;
  const head = table.append("thead").append("tr");
  head
    .append("th")
    .attr("scope", "col")
    .text(several ? "in %" : "token");
  if (several) head.append("th").attr("scope", "col").text("mean");
  head
    .selectAll("th.head")
    .data(heads)
    .join("th")
    .attr("class", "head")
    .attr("scope", "col")
    .style("--colour", headColour)
    .text((head) => head + 1)
    .attr("aria-label", (head) => `head ${head + 1}`);
  const lines = table.append("tbody").selectAll("tr").data(shown).join("tr");
  lines
    .append("th")
    .attr("scope", "row")
    .append("bdi")
    .attr("class", "word")
    .each(function (row) {
      writeToken(this, row.token);
    });
  if (several) {
    lines
      .append("td")
      .attr("class", "mean")
      .text((row) => percent(row.mean));
  }
  lines
    .selectAll("td.weight")
    .data((row) => row.weights.map((weight, i) => ({ weight, head: heads[i] })))
    .join("td")
    .attr("class", "weight")
    .style("--share", ({ weight }) => `${100 * weight}%`)
    .style("--colour", ({ head }) => headColour(head))
    .text(({ weight }) => (several ? fixed(100 * weight, 0) : percent(weight)));
  if (sorted.length > shown.length) {
    const rest = sorted.slice(shown.length);
    box
      .append("p")
      .attr("class", "rest")
      .text(`${rest.length} more tokens share ${percent(d3.sum(rest, (row) => row.mean))}.`);
  }
  return [
    ...caption,
    ...shown.slice(0, 3).flatMap((row) => [" ", { token: row.token }, ` ${percent(row.mean)}`]),
    ". ",
  ];
}

/** Add the tables of one position: what it attends to as a query, and which tokens attend to it as a key. */
function weightTables(parent, attention, layer, heads, { query = null, key = null }) {
  const row = (token, weights) => ({ token, weights, mean: d3.mean(weights) });
  const summary = [];
  if (query !== null) {
    const keys = d3.range(attention.keys.length).filter((other) => attention.canAttend(query, other));
    summary.push(
      ...weightTable(
        parent,
        [{ token: attention.queries[query] }, " attends to"],
        keys.map((other) =>
          row(
            attention.keys[other],
            heads.map((head) => attention.weight(layer, head, query, other)),
          ),
        ),
        heads,
      ),
    );
  }
  if (key !== null) {
    const queries = d3.range(attention.queries.length).filter((other) => attention.canAttend(other, key));
    summary.push(
      ...weightTable(
        parent,
        [{ token: attention.keys[key] }, " is attended to by"],
        queries.map((other) =>
          row(
            attention.queries[other],
            heads.map((head) => attention.weight(layer, head, other, key)),
          ),
        ),
        heads,
      ),
    );
  }
  announce(summary);
}
