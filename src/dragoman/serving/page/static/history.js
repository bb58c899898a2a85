// Translations that this browser keeps, if the reader lets it.

import { announce, byId, element, store, stored } from "./elements.js";

const MOST = 50;
// Longer texts are not kept, since a browser gives a page about 5 MB.
const MOST_CHARACTERS = 10_000;
const NAMES = ["source", "target", "text", "translation"];

export class History {
  /** `restore(entry)` shows an entry again. */
  constructor(restore, nameOf) {
    this.restore = restore;
    this.nameOf = nameOf;
    const keep = byId("keep");
    keep.checked = stored("keep", true);
    keep.addEventListener("change", () => {
      store("keep", keep.checked);
      if (!keep.checked) this.forget();
      this.show();
    });
    byId("forget").addEventListener("click", () => this.forget());
    this.show();
  }

  get entries() {
    const entries = stored("history", []);
    const isChoice = (choice) => Array.isArray(choice) && typeof choice[1]?.text === "string";
    const isEntry = (entry) =>
      NAMES.every((name) => typeof entry?.[name] === "string") && (entry.chosen ?? []).every?.(isChoice);
    return Array.isArray(entries) ? entries.filter(isEntry) : [];
  }

  /**
   * Add an entry {source, target, text, translation, chosen}, with the alternatives that were chosen. It replaces the last
   * one if that is the start of it.
   */
  add(entry) {
    if (!byId("keep").checked || entry.text.length > MOST_CHARACTERS || !entry.text.trim()) return;
    const same = (other) => other.source === entry.source && other.target === entry.target;
    const entries = this.entries.filter((other) => !(same(other) && other.text === entry.text));
    const [last] = entries;
    if (last && same(last) && entry.text.startsWith(last.text)) entries.shift();
    store("history", [entry, ...entries].slice(0, MOST));
    this.show();
  }

  forget() {
    store("history", []);
    this.show();
    announce("The history was deleted.");
  }

  show() {
    const { entries } = this;
    byId("forget").hidden = entries.length === 0;
    byId("history-empty").hidden = entries.length > 0;
    byId("history-empty").textContent = byId("keep").checked
      ? "Your translations are listed here, in this browser only."
      : "Off: nothing is kept.";
    byId("history-list").replaceChildren(...entries.map((entry) => this.item(entry)));
  }

  item(entry) {
    const pair = `${this.nameOf(entry.source)} → ${this.nameOf(entry.target)}`;
    const button = element(
      "button",
      { type: "button", className: "entry" },
      element("span", { className: "pair" }, pair),
      element("span", { className: "line", dir: "auto" }, entry.text),
      element("span", { className: "line soft", dir: "auto" }, entry.translation),
    );
    button.addEventListener("click", () => this.restore(entry));
    return element("li", {}, button);
  }
}
