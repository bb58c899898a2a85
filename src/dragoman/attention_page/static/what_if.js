// The view "What if": the effect of switching heads off.

// What the log-probability belongs to.
const SCORED = translates ? "translation" : "text";

function whatIfView(panel) {
  addHeading(
    panel,
    "The effect of switching a head off",
    `Each cell is one head. Its number is the change in the log-probability of the ${SCORED} above if only this head ` +
      `is switched off; it is negative if the head contributes to the ${translates ? SCORED : "prediction"}. Click a cell ` +
      `to see the ${translates ? SCORED : "predicted tokens"} without the head.` +
      (payload.live ? " Shift-click further cells to switch several heads off at the same time." : ""),
  );
  if (!payload.without.length) {
    addNote(
      panel,
      "This page does not contain the effects of single heads, which take as long to compute as several " +
        `${translates ? "translations" : "predictions"}. To include them, run \`dragoman attention\` without --quick, or in Python:`,
      `${MAKER}.attention(text, without_heads=True).save("page.html")`,
    );
    return () => {};
  }
  const total = payload.logProbability;
  const all = payload.without.map((entry) => ({
    ...entry,
    change: entry.logProbability === null || total === null ? NaN : entry.logProbability - total,
  }));
  const largestChange = d3.max(all, (entry) => Math.abs(entry.change)) || 1;
  // The head with the largest effect is selected at first.
  let chosen = d3.least(all, (entry) => entry.change) ?? all[0];
  // The heads that are switched off: only `chosen`, or several if a server can compute their effect.
  let off = [chosen];
  const result = panel.append("section").attr("class", "result").attr("aria-live", "polite");
  const grids = panel.append("div").attr("class", "what-if-grids");
  const tabOrderUpdates = [];
  for (const [kind, heads] of d3.group(all, (entry) => entry.kind)) tabOrderUpdates.push(drawGrid(kind, heads));
  const legend = panel.append("div").attr("class", "legend");

  function drawGrid(kind, heads) {
    const columns = d3.max(heads, (entry) => entry.head) + 1;
    const box = grids.append("section");
    box.append("h3").text(KIND_NAMES[kind]);
    const table = box.append("div").attr("class", "scroll").append("table").attr("class", "what-if");
    const top = table.append("thead").append("tr");
    top.append("th").attr("class", "corner").text("Layer");
    for (const head of d3.range(columns))
      top
        .append("th")
        .attr("scope", "col")
        .text(head + 1)
        .attr("aria-label", `Head ${head + 1}`);
    const rows = table
      .append("tbody")
      .selectAll("tr")
      .data(d3.groups(heads, (entry) => entry.layer))
      .join("tr");
    rows
      .append("th")
      .attr("scope", "row")
      .text(([layer]) => layer + 1)
      .attr("aria-label", ([layer]) => `Layer ${layer + 1}`);
    rows
      .selectAll("td")
      .data(([, headsOfLayer]) => headsOfLayer)
      .join("td")
      .append("button")
      .attr("type", "button")
      .attr("aria-label", (entry) => `Layer ${entry.layer + 1}, head ${entry.head + 1}: ${signed(entry.change, 2)}`)
      .text((entry) => signed(entry.change, 2))
      .on("click", (event, entry) => {
        if (payload.live && event.shiftKey) {
          const others = off.filter((head) => head !== entry);
          off = others.length < off.length && others.length ? others : [...others, entry];
        } else off = [entry];
        if (off.length === 1) chosen = off[0];
        else showWithout(off);
        update();
      });
    return rovingTabindex(table.node(), "button", {
      columns: () => columns,
      chosen: (item) => item.getAttribute("aria-pressed") === "true",
    });
  }

  function update() {
    const colours = changeColours();
    grids
      .selectAll("button")
      .style("background-color", (entry) => colours(entry.change / largestChange || 0))
      .style("color", (entry) => inkOn(colours(entry.change / largestChange || 0)))
      .attr("aria-pressed", (entry) => String(off.includes(entry)));
    tabOrderUpdates.forEach((updateTabOrder) => updateTabOrder());
    drawLegend(colours);
    if (off.length === 1)
      show(
        `Without ${KIND_NAMES[chosen.kind].toLowerCase()}, layer ${chosen.layer + 1}, head ${chosen.head + 1}`,
        chosen,
      );
  }

  /** Show the result without several heads. A response is ignored if other heads were selected in the meantime. */
  async function showWithout(heads) {
    result.attr("aria-busy", "true");
    try {
      const response = await requestWithoutHeads(heads);
      const change = response.logProbability - total;
      if (off === heads) show(`Without ${heads.length} heads`, { ...response, change });
    } catch (error) {
      if (off === heads) addNote(result.text(""), `The request to the server failed: ${error.message}`);
    }
    if (off === heads) result.attr("aria-busy", null);
  }

  function show(title, ablation) {
    result.selectAll("*").remove();
    result.append("h3").text(title);
    // Both outputs are from greedy search, so that their difference is not due to the search.
    const [withHeads, withoutHeads] = differences(payload.withAll, ablation.translation);
    const lines = result.append("dl").attr("class", "compare");
    drawLine(lines, "with", withHeads, "del");
    drawLine(lines, "without", withoutHeads, "ins");
    const factor = Math.exp(ablation.change);
    const [before, after, change] = [fixed(total, 2), fixed(ablation.logProbability, 2), signed(ablation.change, 2)];
    const scores = `log-probability ${before} → ${after} (${change})`;
    const ratio = factor > 0.001 && factor < 1000 ? `, a probability ${factor.toPrecision(2)} times as large` : "";
    const outputs = translates ? "translations" : "predictions";
    const same = payload.withAll === ablation.translation ? `Both ${outputs} are the same. ` : "";
    const greedy = payload.withAll === payload.translation ? "" : "Both lines are found by greedy search. ";
    result.append("p").attr("class", "change").text(`${same}${greedy}For the ${SCORED} above: ${scores}${ratio}.`);
  }

  function drawLine(lines, name, words, mark) {
    lines.append("dt").text(name);
    const line = lines.append("dd").attr("dir", "auto");
    for (const [i, { text, differs, joined }] of words.entries()) {
      if (i && !joined) line.append("span").text(" ");
      line.append(differs ? mark : "span").text(text);
    }
    if (!words.length) line.append("span").attr("class", "hint").text("(empty)");
  }

  function drawLegend(colours) {
    legend.selectAll("*").remove();
    legend.append("span").text(`${fixed(-largestChange, 2)}: less probable without the head`);
    const stops = d3.range(-1, 1.01, 0.25).map(colours);
    legend
      .append("span")
      .attr("class", "ramp")
      .style("background", `linear-gradient(90deg, ${stops.join(", ")})`);
    legend.append("span").text(`+${fixed(largestChange, 2)}: more probable`);
  }

  return update;
}

// Text in scripts without spaces is compared character by character.
const UNSPACED = "\\p{Script=Han}\\p{Script=Hiragana}\\p{Script=Katakana}\\u3000-\\u303f\\uff00-\\uffef";
const WORD = new RegExp(`[${UNSPACED}]|[^\\s${UNSPACED}]+`, "gu");

/** Return the words of two lines; `differs` is false for the words of their longest common subsequence. */
function differences(first, second) {
  const split = (line) =>
    [...line.matchAll(WORD)].map((match) => ({
      text: match[0],
      joined: match.index > 0 && !/\s/.test(line[match.index - 1]),
      differs: true,
    }));
  const [a, b] = [split(first), split(second)];
  // common[i][j]: length of the longest common subsequence of a[i..] and b[j..]
  const common = d3.range(a.length + 1).map(() => new Uint16Array(b.length + 1));
  for (let i = a.length - 1; i >= 0; i--) {
    for (let j = b.length - 1; j >= 0; j--) {
      common[i][j] = a[i].text === b[j].text ? common[i + 1][j + 1] + 1 : Math.max(common[i + 1][j], common[i][j + 1]);
    }
  }
  for (let i = 0, j = 0; i < a.length && j < b.length;) {
    if (a[i].text === b[j].text) a[i++].differs = b[j++].differs = false;
    else if (common[i + 1][j] >= common[i][j + 1]) i++;
    else j++;
  }
  return [a, b];
}
