// The attention page of a sentence, in a dialog. Its scripts run in a frame that can reach neither this page nor the
// server; the content security policy permits them by their hashes.

import { byId, sentenceOf, element } from "./elements.js";

/** Return a page with the theme that was chosen on this one. */
function withTheme(html) {
  const { theme } = document.documentElement.dataset;
  return theme ? html.replace("<html ", `<html data-theme="${theme}" `) : html;
}

/**
 * The dialog.
 *
 * `load(index, signal)` returns the page of a sentence as HTML.
 */
export class AttentionDialog {
  constructor(output, load) {
    Object.assign(this, { output, load });
    this.dialog = byId("attention");
    this.abort = new AbortController();
    byId("attention-close").addEventListener("click", () => this.dialog.close());
    byId("attention-before").addEventListener("click", () => this.show(this.index - 1));
    byId("attention-after").addEventListener("click", () => this.show(this.index + 1));
    this.dialog.addEventListener("close", () => this.clear());
    // The frame has the focus, and reports the key.
    addEventListener("message", ({ source, data }) => {
      const frame = byId("attention-body").querySelector("iframe");
      if (frame && source === frame.contentWindow && data === "escape") this.dialog.close();
    });
  }

  clear() {
    this.abort.abort();
    URL.revokeObjectURL(byId("attention-save").href);
    byId("attention-save").removeAttribute("href");
    byId("attention-save").hidden = true;
    byId("attention-body").replaceChildren();
  }

  async show(index) {
    this.clear();
    this.index = index;
    const { sentences } = this.output;
    byId("attention-place").textContent = sentences.length > 1 ? `${index + 1} of ${sentences.length}` : "";
    byId("attention-before").hidden = byId("attention-after").hidden = sentences.length < 2;
    byId("attention-before").disabled = index === 0;
    byId("attention-after").disabled = index === sentences.length - 1;
    byId("attention-body").replaceChildren(element("p", { className: "soft", role: "status" }, "Computing attention…"));
    if (!this.dialog.open) this.dialog.showModal();
    const { signal } = (this.abort = new AbortController());
    try {
      const html = await this.load(index, signal);
      if (signal.aborted) return;
      const frame = element("iframe", { title: "Attention of the sentence", srcdoc: withTheme(html) });
      frame.setAttribute("sandbox", "allow-scripts");
      byId("attention-body").replaceChildren(frame);
      byId("attention-save").href = URL.createObjectURL(new Blob([html], { type: "text/html;charset=utf-8" }));
      byId("attention-save").hidden = false;
    } catch (error) {
      if (signal.aborted) return;
      byId("attention-body").replaceChildren(element("p", { className: "notice bad", role: "alert" }, sentenceOf(error.message)));
    }
  }
}
