// Copying of the translation.

import { announce, byId, element } from "./elements.js";

/** Copy a text by a selection, which works over HTTP from another machine too; return whether it was copied. */
function copySelected(text) {
  const focused = document.activeElement;
  const area = element("textarea", { value: text, className: "hidden" });
  document.body.append(area);
  area.select();
  const copied = document.execCommand("copy");
  area.remove();
  focused?.focus();
  return copied;
}

/** Copy the text of an output. If the browser does not permit it, select it. */
export async function copy(output) {
  const { text } = output;
  const copied = await (navigator.clipboard?.writeText(text) ?? Promise.reject()).then(
    () => true,
    () => copySelected(text),
  );
  if (!copied) getSelection().selectAllChildren(output.container);
  byId("copy").textContent = copied ? "Copied" : "Selected";
  announce(
    copied ? "The translation was copied." : "The browser does not permit copying. The translation is selected instead.",
  );
  setTimeout(() => (byId("copy").textContent = "Copy"), 1500);
}
