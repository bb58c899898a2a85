// The page: joins its parts.

import * as api from "./api.js";
import { AttentionDialog } from "./attention.js";
import { Choices } from "./choices.js";
import { copy } from "./copying.js";
import { announce, byId, element, sentenceOf, stored } from "./elements.js";
import { translateFiles } from "./files.js";
import { History } from "./history.js";
import { Languages } from "./languages.js";
import { Links } from "./links.js";
import { Output } from "./output.js";
import { startThemes } from "./themes.js";
import { Typing } from "./typing.js";

// Milliseconds after which a result is read aloud and kept; characters up to which it is read as a whole.
const SETTLED = 1500;
const READ_ALOUD = 300;

const text = byId("text");
const languages = new Languages();
const { source, target } = languages;
const output = new Output(byId("output"));
const links = new Links(text, byId("backdrop"), output, loadLinks);

let limits = { characters: 0, texts: 0, alternatives: 0 };
let settling;

// Messages

function showProblem(message, canRetry = true) {
  byId("problem").hidden = !message;
  byId("problem-text").textContent = message && sentenceOf(message);
  byId("retry").hidden = !canRetry;
  byId("placeholder").hidden = Boolean(message);
}

function report(error) {
  if (error.name === "AbortError") return;
  if (error.status === 403) askForKey();
  else showProblem(error.message);
}

function askForKey() {
  byId("key-form").hidden = false;
  byId("work").hidden = !languages.served.length;
  byId("key-problem").textContent = api.hasKey() ? "The server does not accept this key." : "";
  byId("key").setAttribute("aria-invalid", String(api.hasKey()));
  showProblem("");
  byId("key").focus();
}

// Translation

const typing = new Typing(text, output, languages, {
  begun: showTools,
  finished(answer) {
    showProblem("");
    if (answer.source === target.value) {
      typing.clear();
      byId("placeholder").textContent = `The text is already ${languages.nameOf(target.value)}.`;
      announce(byId("placeholder").textContent);
    }
    byId("note").textContent = answer.through ? `Through ${languages.nameOf(answer.through)}` : "";
    links.update();
    showTools();
    settling = setTimeout(settle, SETTLED);
  },
  failed(error, again) {
    showTools();
    const seconds = again === 1 ? "a second" : `${again} seconds`;
    report(again === null ? error : new api.RequestError(0, `${sentenceOf(error.message)} Trying again in ${seconds}…`));
  },
});

function changed(atOnce = false) {
  clearTimeout(settling);
  typing.stop();
  choices.close();
  links.reset();
  const length = [...text.value].length;
  const isOver = length > limits.characters;
  byId("count").textContent = length ? `${length.toLocaleString("en")} / ${limits.characters.toLocaleString("en")}` : "";
  byId("count").classList.toggle("over", isOver);
  if (text.getAttribute("aria-invalid") === "true") showProblem("");
  text.setAttribute("aria-invalid", String(isOver));
  byId("clear").hidden = !length;
  byId("placeholder").textContent = "The translation appears here.";
  if (!text.value.trim() || isOver) {
    typing.clear();
    byId("note").textContent = "";
    if (!isOver) languages.detect(null);
    const most = limits.characters.toLocaleString("en");
    showProblem(isOver ? `This text is too long: this server translates at most ${most} characters at a time.` : "", false);
  } else if (target.value) {
    typing.start(atOnce);
  }
  showTools();
}

function showTools() {
  byId("copy").disabled = !typing.isCurrent || !output.text;
  byId("show-attention").disabled = !typing.isCurrent;
  // A translation through a third language has two attentions.
  byId("show-attention").hidden = !output.sentences.length || Boolean(output.through);
}

/** Read the result aloud, and keep it. */
function settle() {
  if (!output.sentences.length) return;
  const count = output.sentences.length === 1 ? "1 sentence" : `${output.sentences.length} sentences`;
  if (output.text.length > READ_ALOUD) announce(`Translated: ${count}.`);
  else announce("Translation: ", element("span", { lang: target.value }, output.text));
  keep();
}

function keep() {
  const chosen = [...output.chosen].filter(([sentence]) => text.value.includes(sentence));
  history.add({ ...typing.pair, text: text.value, translation: output.text, chosen });
}

/** Replace the text so that it can be undone. */
function replaceText(value) {
  text.focus();
  text.select();
  if (!document.execCommand(value ? "insertText" : "delete", false, value)) text.value = value;
}

function swap() {
  if (!languages.canSwap) return;
  const translation = typing.isCurrent ? output.text : "";
  const focused = document.activeElement;
  languages.swap();
  output.chosen.clear();
  if (translation) replaceText(translation);
  focused?.focus();
  changed(true);
}

/** Translate a sentence again, for what is needed only when it is pointed at. */
async function again(index, options) {
  const texts = [output.sentences[index].source];
  const body = { texts, split_sentences: false, ...typing.pair, ...options };
  const [answer] = await api.translate(body, typing.abort.signal);
  return answer.sentences[0];
}

async function loadLinks(index) {
  const shown = output.sentences[index].translation;
  try {
    const sentence = await again(index, { alignment: true });
    // A sentence that was replaced by an alternative has no links.
    return sentence?.translation === shown ? (sentence.links ?? []) : [];
  } catch (error) {
    // A model without links between words answers 400, now and later.
    if (error.status === 400) return [];
    throw error;
  }
}

// Alternatives and attention

const choices = new Choices(output, {
  search: (index, prefix) => again(index, { alternatives: limits.alternatives, prefix }),
  language: () => target.value,
  report,
  chosen() {
    showTools();
    keep();
  },
  closed: () => links.hold(null),
});

const attention = new AttentionDialog(output, (index, signal) => {
  const { source: sentence, translation } = output.sentences[index];
  return api.attention({ text: sentence, translation, ...typing.pair }, signal);
});

function pick(event, shown, word) {
  if (!typing.isCurrent) return;
  event.preventDefault();
  links.hold(word);
  choices.show(Number(shown.dataset.index), word?.start ?? 0);
}

byId("output").addEventListener("click", (event) => {
  const shown = event.target.closest(".sentence");
  // A click at the end of a selection selects.
  if (shown && getSelection().isCollapsed) pick(event, shown, event.target.closest(".word"));
});
byId("output").addEventListener("keydown", (event) => {
  const shown = event.target.closest(".sentence");
  if (!shown || event.altKey || event.ctrlKey || event.metaKey) return;
  if (event.key === "Enter" || event.key === " ") pick(event, shown, output.reached(shown));
  const step = { ArrowRight: 1, ArrowLeft: -1 }[event.key];
  if (step) {
    event.preventDefault();
    const word = output.moveWord(shown, step);
    links.point(word);
    announce(element("span", { lang: target.value }, word?.textContent ?? ""));
  }
  const line = { ArrowDown: 1, ArrowUp: -1 }[event.key];
  if (line) {
    event.preventDefault();
    output.sentenceAt(Number(shown.dataset.index) + line)?.focus();
  }
});
byId("show-attention").addEventListener("click", () => attention.show(Math.max(0, choices.selected)));

// Files

function takeFiles(files) {
  translateFiles(files, {
    source: source.value,
    target: target.value,
    most: limits.characters,
    translate: async (body, signal) => (await api.translate(body, signal))[0],
    nameOf: (code) => languages.nameOf(code),
  });
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
    if (name === "drop" && languages.served.length) takeFiles(event.dataTransfer.files);
  });
}

// The rest

const history = new History(
  (entry) => {
    languages.choose(entry.source, entry.target);
    replaceText(entry.text);
    output.chosen = new Map(entry.chosen);
    changed(true);
    scrollTo({ top: 0 });
  },
  (code) => languages.nameOf(code),
);

async function start() {
  try {
    const answer = await api.languages();
    ({ limits } = answer);
    languages.served = answer.languages;
    byId("key-form").hidden = true;
    byId("work").hidden = byId("work").inert = false;
    const [from, to] = stored("languages", ["auto", ""]);
    languages.choose(from, to);
    history.show();
    changed(true);
    if (!languages.served.length) showProblem("This server has no models.");
    if ([document.body, byId("key")].includes(document.activeElement)) text.focus({ preventScroll: true });
  } catch (error) {
    report(error);
  }
}

byId("key-form").addEventListener("submit", (event) => {
  event.preventDefault();
  api.useKey(byId("key").value);
  start();
});
byId("retry").addEventListener("click", () => {
  text.focus();
  if (languages.served.length) changed(true);
  else start();
});
byId("clear").addEventListener("click", () => replaceText(""));
byId("copy").addEventListener("click", () => copy(output));
byId("swap").addEventListener("click", swap);
text.addEventListener("input", () => changed());
for (const select of [source, target]) {
  select.addEventListener("change", () => {
    languages.choose(source.value, target.value);
    output.chosen.clear();
    changed(true);
  });
}
document.addEventListener("keydown", (event) => {
  if (event.key === "Escape" && choices.open && !event.target.closest("dialog")) choices.leave();
  const isAlt = event.altKey && !event.ctrlKey && !event.metaKey && !event.getModifierState("AltGraph");
  if (isAlt && event.key.toLowerCase() === "s" && !byId("attention").open) {
    event.preventDefault();
    swap();
  }
});
startThemes();
start();
