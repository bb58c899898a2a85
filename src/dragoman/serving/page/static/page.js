// The page: text is translated as it is typed.

import * as api from "./api.js";
import { AttentionDialog } from "./attention.js";
import { Choices } from "./choices.js";
import { byId, capitalized, element, store, stored } from "./elements.js";
import { translateFile } from "./files.js";
import { History } from "./history.js";
import { Links } from "./links.js";
import { Output } from "./output.js";

// Milliseconds without a key after which the text is translated; after which a result is read aloud and kept.
const PAUSE = 50;
const SETTLED = 1500;

const text = byId("text");
const source = byId("source");
const target = byId("target");
const output = new Output(byId("output"));
const links = new Links(text, byId("backdrop"), output, loadLinks);
const english = new Intl.DisplayNames(["en"], { type: "language", fallback: "code" });

let served = { languages: [], limits: { characters: 0, texts: 0, alternatives: 0 } };
let abort = new AbortController();
let typing;
let settling;
// Code of the language of the text: as chosen, or as detected.
let known = null;

function nameOf(code) {
  const name = served.languages.find((language) => language.code === code)?.name;
  if (name && name !== code) return name;
  try {
    return english.of(code);
  } catch {
    return code;
  }
}

function showProblem(message) {
  byId("problem").hidden = !message;
  byId("problem-text").textContent = capitalized(message);
}

function report(error) {
  if (error.name === "AbortError") return;
  byId("key-form").hidden = error.status !== 403;
  showProblem(error instanceof TypeError ? "The server cannot be reached." : error.message);
}

// Languages

function targetsOf(code) {
  const languages = served.languages.filter((language) => code === "auto" || language.code === code);
  return [...new Set(languages.flatMap((language) => language.targets))];
}

function fill(select, codes, wanted) {
  const options = codes.map((code) => element("option", { value: code }, code === "auto" ? "Detect language" : nameOf(code)));
  select.replaceChildren(...options);
  select.value = codes.includes(wanted) ? wanted : (codes[0] ?? "");
}

function chooseLanguages(from, to) {
  fill(source, ["auto", ...served.languages.map((language) => language.code)], from);
  fill(target, targetsOf(source.value).sort((a, b) => nameOf(a).localeCompare(nameOf(b))), to);
  known = source.value === "auto" ? null : source.value;
  store("languages", [source.value, target.value]);
  byId("output").lang = target.value;
  showDirection();
}

function showDirection() {
  byId("swap").disabled = !(known && targetsOf(target.value).includes(known));
  const detect = source.querySelector('[value="auto"]');
  if (!detect) return;
  detect.textContent = source.value === "auto" && known ? `${nameOf(known)} (detected)` : "Detect language";
  if (known) text.lang = known;
}

function swap() {
  if (byId("swap").disabled) return;
  const translation = output.text;
  chooseLanguages(target.value, known);
  if (translation) text.value = translation;
  changed(0);
}

// Translation

function request() {
  return { source: known ?? source.value, target: target.value };
}

function changed(pause = PAUSE) {
  abort.abort();
  clearTimeout(typing);
  clearTimeout(settling);
  choices.close();
  links.reset();
  const { characters } = served.limits;
  const { length } = [...text.value];
  byId("count").textContent = length ? `${length.toLocaleString("en")} / ${characters.toLocaleString("en")}` : "";
  byId("count").classList.toggle("over", length > characters);
  byId("clear").hidden = !length;
  document.body.classList.remove("busy");
  if (!text.value.trim()) {
    byId("note").textContent = "";
    output.clear();
    if (source.value === "auto") known = null;
    showDirection();
    finished();
  } else if (length <= characters && target.value) {
    typing = setTimeout(run, pause);
  }
}

function finished() {
  byId("copy").disabled = !output.text;
  // A translation through a third language has two attentions.
  byId("show-attention").hidden = !output.sentences.length || Boolean(output.through);
  byId("placeholder").hidden = Boolean(output.text);
}

async function run() {
  abort = new AbortController();
  const { signal } = abort;
  const typed = text.value;
  document.body.classList.add("busy");
  showProblem("");
  output.begin(typed);
  try {
    const body = { text: typed, source: source.value, target: target.value };
    for await (const [name, data] of api.stream(body, signal)) {
      if (signal.aborted) return;
      if (name === "error") throw new api.RequestError(503, data.error.message);
      byId("placeholder").hidden = true;
      if (name === "sentence") output.add(data);
      else finish(data, typed);
    }
  } catch (error) {
    if (!signal.aborted) {
      output.clear();
      finished();
      report(error);
    }
  } finally {
    if (!signal.aborted) document.body.classList.remove("busy");
  }
}

function finish(answer, typed) {
  output.finish(answer);
  known = answer.source;
  byId("note").textContent = answer.through ? `Through ${nameOf(answer.through)}` : "";
  links.update();
  showDirection();
  finished();
  settling = setTimeout(() => {
    byId("status").textContent = `Translation: ${output.text}`;
    history.add({ ...request(), text: typed, translation: output.text });
  }, SETTLED);
}

/** Translate a sentence again, for what is needed only when it is pointed at. */
async function again(index, options) {
  const texts = [output.sentences[index].source];
  const [answer] = await api.translate({ texts, split_sentences: false, ...request(), ...options }, abort.signal);
  return answer.sentences[0];
}

async function loadLinks(index) {
  const shown = output.sentences[index].translation;
  try {
    const sentence = await again(index, { alignment: true });
    // A sentence that was replaced by an alternative has no links.
    return sentence?.translation === shown ? (sentence.links ?? []) : [];
  } catch (error) {
    // A model without links between words is not a problem of the reader.
    if (error.status !== 400) report(error);
    return [];
  }
}

// Alternatives and attention

const choices = new Choices(output, {
  search: (index, prefix) => again(index, { alternatives: served.limits.alternatives, prefix }),
  language: () => target.value,
  report,
});

const attention = new AttentionDialog(output, (index, signal) => {
  const { source: sentence, translation } = output.sentences[index];
  return api.attention({ text: sentence, translation, ...request() }, signal);
});

function pick(event, word) {
  const shown = event.target.closest(".sentence");
  if (!shown || document.body.classList.contains("busy") || !getSelection().isCollapsed) return;
  event.preventDefault();
  choices.show(Number(shown.dataset.index), word);
}

byId("output").addEventListener("click", (event) => pick(event, event.target.closest(".word")?.word ?? 0));
byId("output").addEventListener("keydown", (event) => {
  const shown = event.target.closest(".sentence");
  if (!shown) return;
  if (event.key === "Enter" || event.key === " ") pick(event, output.wordAt(shown));
  const step = { ArrowRight: 1, ArrowLeft: -1 }[event.key];
  if (step) {
    event.preventDefault();
    byId("status").textContent = output.moveWord(shown, step);
  }
});
byId("show-attention").addEventListener("click", () => attention.show(Math.max(0, choices.selected)));

// Copying

async function copy() {
  try {
    await navigator.clipboard.writeText(output.text);
  } catch {
    // Over HTTP from another machine, browsers have no clipboard for scripts but this one.
    const area = element("textarea", { value: output.text, className: "hidden" });
    document.body.append(area);
    area.select();
    document.execCommand("copy");
    area.remove();
  }
  byId("copy").textContent = "Copied";
  byId("status").textContent = "The translation was copied.";
  setTimeout(() => (byId("copy").textContent = "Copy"), 1500);
}

// Files

function takeFiles(list) {
  const options = { source: source.value, target: target.value };
  for (const file of list) {
    translateFile(file, options.target, served.limits.characters, async (part, signal) => {
      const [answer] = await api.translate({ texts: [part], ...options }, signal);
      return answer.text;
    });
  }
}

byId("open").addEventListener("click", () => byId("file").click());
byId("file").addEventListener("change", ({ target: input }) => {
  takeFiles(input.files);
  input.value = "";
});
for (const name of ["dragover", "drop", "dragleave"]) {
  document.addEventListener(name, (event) => {
    if (!event.dataTransfer?.types.includes("Files")) return;
    event.preventDefault();
    document.body.classList.toggle("dropping", name === "dragover");
    if (name === "drop") takeFiles(event.dataTransfer.files);
  });
}

// The rest

const THEMES = ["auto", "light", "dark"];

function showTheme(theme) {
  if (theme === "auto") delete document.documentElement.dataset.theme;
  else document.documentElement.dataset.theme = theme;
  byId("theme").textContent = `Theme: ${theme}`;
}

const history = new History((entry) => {
  chooseLanguages(entry.source, entry.target);
  text.value = entry.text;
  changed(0);
  text.focus();
  scrollTo({ top: 0 });
}, nameOf);

async function start() {
  try {
    served = await api.languages();
    byId("key-form").hidden = true;
    showProblem(served.languages.length ? "" : "This server has no models.");
    const [from, to] = stored("languages", ["auto", ""]);
    chooseLanguages(from, to);
    history.show();
    changed(0);
  } catch (error) {
    report(error);
  }
}

byId("theme").addEventListener("click", () => {
  const theme = THEMES[(THEMES.indexOf(stored("theme", "auto")) + 1) % THEMES.length];
  store("theme", theme);
  showTheme(theme);
});
byId("key-form").addEventListener("submit", (event) => {
  event.preventDefault();
  api.useKey(byId("key").value);
  start();
});
byId("retry").addEventListener("click", () => {
  text.focus();
  if (served.languages.length) changed(0);
  else start();
});
byId("clear").addEventListener("click", () => {
  text.value = "";
  changed();
  text.focus();
});
byId("copy").addEventListener("click", copy);
byId("swap").addEventListener("click", swap);
text.addEventListener("input", () => changed());
for (const select of [source, target]) {
  select.addEventListener("change", () => {
    chooseLanguages(source.value, target.value);
    changed(0);
  });
}
document.addEventListener("keydown", (event) => {
  if (event.key === "Escape" && choices.open && !event.target.closest("dialog")) choices.leave();
  if (event.altKey && event.code === "KeyS") {
    event.preventDefault();
    swap();
  }
});
showTheme(THEMES.includes(stored("theme", "auto")) ? stored("theme", "auto") : "auto");
start();
