// The languages of the server, and the two that are chosen. That of the text may be detected.

import { byId, element, store } from "./elements.js";

const english = new Intl.DisplayNames(["en"], { type: "language", fallback: "code" });

export class Languages {
  constructor() {
    this.source = byId("source");
    this.target = byId("target");
    this.served = [];
    this.detected = null;
  }

  /** Code of the language of the text, as chosen or detected; null if it is not known. */
  get known() {
    return this.source.value === "auto" ? this.detected : this.source.value;
  }

  nameOf(code) {
    const name = this.served.find((language) => language.code === code)?.name;
    if (name && name !== code) return name;
    try {
      return english.of(code);
    } catch {
      return code;
    }
  }

  targetsOf(code) {
    const languages = this.served.filter((language) => code === "auto" || language.code === code);
    return [...new Set(languages.flatMap((language) => language.targets))];
  }

  fill(select, codes, wanted) {
    const options = codes.map((code) =>
      element("option", { value: code }, code === "auto" ? "Detect language" : this.nameOf(code)),
    );
    select.replaceChildren(...options);
    select.value = codes.includes(wanted) ? wanted : (codes[0] ?? "");
  }

  /** Choose languages; one that the server does not have is replaced by the first one. */
  choose(from, to) {
    this.fill(this.source, ["auto", ...this.served.map((language) => language.code)], from);
    const targets = this.targetsOf(this.source.value);
    this.fill(this.target, targets.sort((a, b) => this.nameOf(a).localeCompare(this.nameOf(b))), to);
    store("languages", [this.source.value, this.target.value]);
    byId("output").lang = this.target.value;
    this.detect(null);
  }

  /** Show which language was detected; null for none. */
  detect(code) {
    this.detected = code;
    const { known } = this;
    byId("swap").disabled = !this.canSwap;
    const option = this.source.querySelector('[value="auto"]');
    const isDetected = this.source.value === "auto" && known;
    if (option) option.textContent = isDetected ? `${this.nameOf(known)} (detected)` : "Detect language";
    byId("text").lang = known ?? "";
  }

  get canSwap() {
    return Boolean(this.known) && this.targetsOf(this.target.value).includes(this.known);
  }

  swap() {
    this.choose(this.target.value, this.known);
  }
}
