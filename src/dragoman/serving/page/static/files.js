// Text files: read, translated in parts, and given back.

import { byId, capitalized, element } from "./elements.js";

// Characters of one request: progress is visible, and others are not kept waiting.
const PART = 4000;

/** Return the parts of a text, whole lines each; joined, they are the text. */
function parts(text, most) {
  const list = [""];
  for (const line of text.split(/(?<=\n)/)) {
    if (list.at(-1) && list.at(-1).length + line.length > most) list.push("");
    list[list.length - 1] += line;
  }
  return list;
}

function nameFor(name, target) {
  const dot = name.lastIndexOf(".");
  return dot > 0 ? `${name.slice(0, dot)}.${target}${name.slice(dot)}` : `${name}.${target}.txt`;
}

/**
 * Translate a file, and offer the result for download.
 *
 * `translate(text, signal)` returns the translation of a text; `most` is the number of characters of a request.
 */
export async function translateFile(file, target, most, translate) {
  byId("files").hidden = false;
  const bar = element("progress", { max: 1, value: 0, "aria-label": `Progress of ${file.name}` });
  const state = element("span", { className: "soft" }, "Translating…");
  const cancel = element("button", { type: "button", className: "quiet" }, "Cancel");
  const row = element("li", {}, element("bdi", { className: "name" }, file.name), bar, state, cancel);
  byId("files-list").prepend(row);
  const abort = new AbortController();
  cancel.addEventListener("click", () => abort.abort());
  const end = (message, failed = true) => {
    bar.remove();
    cancel.remove();
    state.textContent = capitalized(message);
    state.className = failed ? "flags" : "soft";
    byId("status").textContent = `${file.name}: ${message}`;
  };
  try {
    const text = new TextDecoder("utf-8", { fatal: true, ignoreBOM: true }).decode(await file.arrayBuffer());
    if (text.includes("\0")) throw new TypeError("binary");
    const list = parts(text, Math.min(PART, most));
    const done = [];
    for (const part of list) {
      done.push(await translate(part, abort.signal));
      bar.value = done.length / list.length;
    }
    const address = URL.createObjectURL(new Blob(done, { type: "text/plain;charset=utf-8" }));
    end("Done.", false);
    row.append(element("a", { href: address, download: nameFor(file.name, target), className: "strong" }, "Download"));
  } catch (error) {
    if (error instanceof TypeError && !abort.signal.aborted) end("This is not a text file in UTF-8.");
    else end(error.name === "AbortError" ? "Cancelled." : error.message);
  }
}
