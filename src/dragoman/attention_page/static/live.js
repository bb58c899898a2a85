// Requests to the server; only included in a page that is served by `dragoman attention --serve`.

/**
 * Request the model's output without these heads. Returns the translation by greedy search, and the log-probability of
 * the translation that the page shows.
 */
async function requestWithoutHeads(heads) {
  const answer = await fetch("without", {
    method: "POST",
    headers: { "Content-Type": "application/json" },
    body: JSON.stringify(heads.map(({ kind, layer, head }) => [kind, layer, head])),
  });
  if (!answer.ok) throw new Error(await answer.text());
  return answer.json();
}
