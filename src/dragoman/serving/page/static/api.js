// Requests to the server.

/** A request that failed: an answer with an error status, or none (status 0). `retryAfter` is in seconds. */
export class RequestError extends Error {
  constructor(status, message, retryAfter = 1) {
    super(message);
    this.status = status;
    this.retryAfter = retryAfter;
  }

  /** Whether the same request may succeed later. */
  get passes() {
    return this.status === 429 || this.status === 503;
  }
}

let key = null;

/** Use an API key from now on. It is kept in memory only. */
export function useKey(text) {
  key = text;
}

/** Whether a key is used. */
export const hasKey = () => Boolean(key);

/** Return the error of a request that was not answered. */
const unreachable = (error) =>
  error instanceof TypeError ? new RequestError(0, "the server cannot be reached") : error;

async function send(path, body, signal) {
  const headers = key ? { Authorization: `Bearer ${key}` } : {};
  const options = { signal, headers };
  if (body !== undefined) {
    options.method = "POST";
    options.body = JSON.stringify(body);
    headers["Content-Type"] = "application/json";
  }
  const answer = await fetch(path, options).catch((error) => {
    throw unreachable(error);
  });
  if (answer.ok) return answer;
  const { error } = await answer.json().catch(() => ({}));
  const message = error?.message ?? error ?? `the server answered with status ${answer.status}`;
  throw new RequestError(answer.status, message, Number(answer.headers.get("Retry-After")) || undefined);
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
    const { value, done } = await reader.read().catch((error) => {
      throw unreachable(error);
    });
    if (done) return;
    const blocks = (rest + value).split("\n\n");
    rest = blocks.pop();
    for (const block of blocks) {
      const [, name, data] = block.match(/^event: (\w+)\ndata: (.*)$/s);
      if (name === "error") throw new RequestError(503, JSON.parse(data).error.message);
      yield [name, JSON.parse(data)];
    }
  }
}
