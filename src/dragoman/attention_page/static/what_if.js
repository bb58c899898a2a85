// Single heads switched off: what the translation loses.

function whatIfView(panel) {
  lead(
    panel,
    "What if a head were missing?",
    "Each cell is one head, switched off alone. Its number is the change in the log-probability that the model gives " +
      "to the translation above: below zero, the head had helped. Choose a cell to see what the model says without it." +
      (payload.live ? " With Shift, more heads go: the model is asked what it says without all of them." : ""),
  );
  if (!payload.without.length) {
    note(
      panel,
      "This page does not hold what single heads do: that takes as long as some translations. It is found by " +
        "`dragoman attention` without --quick, or in Python:",
      'translator.attention(text, without_heads=True).save("page.html")',
    );
    return () => {};
  }
  const total = payload.logProbability;
  const all = payload.without.map((each) => ({
    ...each,
    change: each.logProbability === null || total === null ? NaN : each.logProbability - total,
  }));
  const reach = d3.max(all, (each) => Math.abs(each.change)) || 1;
  // What matters most is shown first.
  let chosen = d3.least(all, (each) => each.change) ?? all[0];
  // Several heads at once, which only a server can tell about; otherwise `chosen` alone.
  let off = [chosen];
  const result = panel.append("section").attr("class", "result").attr("aria-live", "polite");
  const grids = panel.append("div").attr("class", "what-if-grids");
  const settles = [];
  for (const [kind, heads] of d3.group(all, (each) => each.kind)) settles.push(drawGrid(kind, heads));
  const legend = panel.append("div").attr("class", "legend");

  function drawGrid(kind, heads) {
    const columns = d3.max(heads, (each) => each.head) + 1;
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
      .data(d3.groups(heads, (each) => each.layer))
      .join("tr");
    rows
      .append("th")
      .attr("scope", "row")
      .text(([layer]) => layer + 1)
      .attr("aria-label", ([layer]) => `Layer ${layer + 1}`);
    rows
      .selectAll("td")
      .data(([, some]) => some)
      .join("td")
      .append("button")
      .attr("type", "button")
      .attr("aria-label", (each) => `Layer ${each.layer + 1}, head ${each.head + 1}: ${signed(each.change, 2)}`)
      .text((each) => signed(each.change, 2))
      .on("click", (event, each) => {
        if (payload.live && event.shiftKey) {
          const others = off.filter((one) => one !== each);
          off = others.length < off.length && others.length ? others : [...others, each];
        } else off = [each];
        if (off.length === 1) chosen = off[0];
        else ask(off);
        update();
      });
    return roving(table.node(), "button", {
      columns: () => columns,
      chosen: (item) => item.getAttribute("aria-pressed") === "true",
    });
  }

  function update() {
    const colours = changeColours();
    grids
      .selectAll("button")
      .style("background-color", (each) => colours(each.change / reach || 0))
      .style("color", (each) => inkOn(colours(each.change / reach || 0)))
      .attr("aria-pressed", (each) => String(off.includes(each)));
    settles.forEach((settle) => settle());
    drawLegend(colours);
    if (off.length === 1)
      show(
        `Without ${KIND_NAMES[chosen.kind].toLowerCase()}, layer ${chosen.layer + 1}, head ${chosen.head + 1}`,
        chosen,
      );
  }

  /** What the model says without all of these; an answer that comes too late, for other heads, is not shown. */
  async function ask(heads) {
    result.attr("aria-busy", "true");
    try {
      const found = await askWithout(heads);
      if (off === heads) show(`Without ${heads.length} heads`, { ...found, change: found.logProbability - total });
    } catch (error) {
      if (off === heads) note(result.text(""), `The model could not be asked: ${error.message}`);
    }
    if (off === heads) result.attr("aria-busy", null);
  }

  function show(title, chosen) {
    result.selectAll("*").remove();
    result.append("h3").text(title);
    // Without a head the search is greedy; so it must be with it, or the search would seem the head's doing.
    const [kept, other] = differences(payload.withAll, chosen.translation);
    const lines = result.append("dl").attr("class", "compare");
    drawLine(lines, "with it", kept, "del");
    drawLine(lines, "without", other, "ins");
    const times = Math.exp(chosen.change);
    const [before, after, difference] = [fixed(total, 2), fixed(chosen.logProbability, 2), signed(chosen.change, 2)];
    const scores = `log-probability ${before} → ${after} (${difference})`;
    const ratio = times > 0.001 && times < 1000 ? `; it is ${times.toPrecision(2)} times as probable as before` : "";
    const same = payload.withAll === chosen.translation ? "The same words. " : "";
    const greedy = payload.withAll === payload.translation ? "" : "Both lines are found by greedy search. ";
    result.append("p").attr("class", "change").text(`${same}${greedy}For the translation above: ${scores}${ratio}.`);
  }

  function drawLine(lines, name, words, mark) {
    lines.append("dt").text(name);
    const line = lines.append("dd").attr("dir", "auto");
    for (const [place, { text, differs, joined }] of words.entries()) {
      if (place && !joined) line.append("span").text(" ");
      line.append(differs ? mark : "span").text(text);
    }
    if (!words.length) line.append("span").attr("class", "hint").text("(nothing)");
  }

  function drawLegend(colours) {
    legend.selectAll("*").remove();
    legend.append("span").text(`${fixed(-reach, 2)}: less probable without it`);
    const stops = d3.range(-1, 1.01, 0.25).map(colours);
    legend
      .append("span")
      .attr("class", "ramp")
      .style("background", `linear-gradient(90deg, ${stops.join(", ")})`);
    legend.append("span").text(`+${fixed(reach, 2)}: more probable`);
  }

  return update;
}

// Scripts written without spaces are compared character by character.
const ALONE = "\\p{Script=Han}\\p{Script=Hiragana}\\p{Script=Katakana}\\u3000-\\u303f\\uff00-\\uffef";
const WORD = new RegExp(`[${ALONE}]|[^\\s${ALONE}]+`, "gu");

/** The words of two lines, each with whether it is not in the longest row of words that both have. */
function differences(first, second) {
  const split = (line) =>
    [...line.matchAll(WORD)].map((found) => ({
      text: found[0],
      joined: found.index > 0 && !/\s/.test(line[found.index - 1]),
      differs: true,
    }));
  const [a, b] = [split(first), split(second)];
  // common[i][j]: how many words the rests from i and j share
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
