// Sets the theme before the page is painted. Runs before the modules.
"use strict";

try {
  const theme = localStorage.getItem("dragoman.theme")?.replaceAll('"', "");
  if (theme === "light" || theme === "dark") document.documentElement.dataset.theme = theme;
} catch {
  // The browser keeps nothing for the page.
}
