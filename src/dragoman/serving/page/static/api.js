// Requests to the server.

/** An answer with an error status. */
export class RequestError extends Error {
  constructor(status, message) {
    super(message);
    this.status = status;
  }
}

let key = null;

/** Use an API key from now on. It is kept in memory only. */
export function useKey(text) {
  key = text;
}

async function send(path, body, signal) {
  const headers = key ? { Authorization: `Bearer ${key}` } : {};
  const options = { signal, headers };
  if (body !== undefined) {
    options.method = "POST";
    options.body = JSON.stringify(body);
    headers["Content-Type"] = "application/json";
  }
  const answer = await fetch(path, options);
  if (answer.ok) return answer;
  const { error } = await answer.json().catch(() => ({}));
  throw new RequestError(answer.status, error?.message ?? error ?? `The server answered with status ${answer.status}.`);
}

/** Return {languages, limits}. */
export const languages = async () => (await send("v1/languages")).json();

/** Return the translations of texts. */
export const translate = async (body, signal) => (await (await send("v1/translate", body, signal)).json()).translations;

/** Return the attention page of a sentence as HTML. */
export const attention = async (body, signal) =>
  (await send("v1/attention", { ...body, format: "html" }, signal)).text();

/** Yield [name, data] for each server-sent event of the translation of a text. */
export async function* stream(body, signal) {
  const answer = await send("v1/translate/stream", body, signal);
  const reader = answer.body.pipeThrough(new TextDecoderStream()).getReader();
  let rest = "";
  for (;;) {
    const { value, done } = await reader.read();
    if (done) return;
    const blocks = (rest + value).split("\n\n");
    rest = blocks.pop();
    for (const block of blocks) {
      const [, name, data] = block.match(/^event: (\w+)\ndata: (.*)$/s);
      yield [name, JSON.parse(data)];
    }
  }
}
