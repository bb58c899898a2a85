// The view "Prediction": the tokens that a language model or an encoder predicts.

function predictionView(panel) {
  addHeading(
    panel,
    "Prediction of each token",
    attentions.decoder_self
      ? "For each position: the next token of the text, and the most probable next tokens under the model, which reads " +
          "the tokens before it only."
      : "For each position: the token of the text, and the most probable tokens under the model, which reads a copy of " +
          "the text in which this token is masked.",
  );
  candidateSteps(panel.append("section").attr("class", "steps"));
  return () => {};
}
