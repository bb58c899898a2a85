// Only in a page that is served: the model behind it can be asked.

/** What the model says without these heads, and what it then gives to the translation of the page. */
async function askWithout(heads) {
  const answer = await fetch("without", {
    method: "POST",
    headers: { "Content-Type": "application/json" },
    body: JSON.stringify(heads.map((each) => [each.kind, each.layer, each.head])),
  });
  if (!answer.ok) throw new Error(await answer.text());
  return answer.json();
}
