// The most probable tokens in place of each predicted token.

/** Add the list of candidates. Returns a function that marks the positions from `first` to before `end`. */
function candidateSteps(steps) {
  if (!payload.candidates.length) {
    addNote(
      steps,
      "This page does not contain candidates. They are included if they are requested:",
      `${MAKER}.attention(text, candidates=5).save("page.html")`,
    );
    return () => {};
  }
  const list = steps.append("ol").attr("class", "step-list").attr("dir", directionOf(payload.rows.predicted.tokens));
  const step = list.selectAll("li").data(payload.candidates).join("li");
  step
    .append("span")
    .attr("class", "word output-token")
    .each(function (candidates, index) {
      const token = payload.rows.predicted.tokens[index];
      // A language model also predicts how the text continues.
      if (token === undefined) d3.select(this).classed("special", true).text("continuation");
      else writeToken(this, token);
    });
  const candidate = step
    .append("ul")
    .selectAll("li")
    .data((candidates, index) =>
      candidates.map(([token, probability]) => ({
        token,
        probability,
        inOutput: token === payload.rows.predicted.tokens[index],
      })),
    )
    .join("li")
    .classed("chosen", ({ inOutput }) => inOutput)
    .style("--share", ({ probability }) => `${100 * probability}%`);
  candidate
    .append("span")
    .attr("class", "word")
    .each(function ({ token }) {
      writeToken(this, token);
    });
  candidate
    .append("span")
    .attr("class", "amount")
    .text(({ probability }) => percent(probability));
  return (first, end) => step.classed("active", (datum, index) => index >= first && index < end);
}
