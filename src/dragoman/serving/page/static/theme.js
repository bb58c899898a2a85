// Sets the theme before the page is painted. Runs before the modules.
"use strict";

{
  const theme = localStorage.getItem("dragoman.theme")?.replaceAll('"', "");
  if (theme === "light" || theme === "dark") document.documentElement.dataset.theme = theme;
}
