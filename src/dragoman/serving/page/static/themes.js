// The button that switches between the colours of the system, light and dark.

import { byId, store, stored } from "./elements.js";

const THEMES = ["auto", "light", "dark"];

function show(theme) {
  if (theme === "auto") delete document.documentElement.dataset.theme;
  else document.documentElement.dataset.theme = theme;
  byId("theme").textContent = `Theme: ${theme}`;
}

/** Show the stored theme, and change it with the button. */
export function startThemes() {
  let theme = THEMES.includes(stored("theme", "auto")) ? stored("theme", "auto") : "auto";
  show(theme);
  byId("theme").addEventListener("click", () => {
    theme = THEMES[(THEMES.indexOf(theme) + 1) % THEMES.length];
    store("theme", theme);
    show(theme);
  });
}
