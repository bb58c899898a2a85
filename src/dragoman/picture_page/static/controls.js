// Groups of radio buttons, which the arrow keys move through, and the colour scheme.

let groups = 0;

/**
 * Fill an element with a group of radio buttons.
 *
 * `options` have a value and a text, or a function `fill` that writes the content of the button, and optionally a name
 * for screen readers.
 */
function radioGroup(container, label, options, chosen, choose) {
  const id = `group-${groups++}`;
  const heading = document.createElement("span");
  heading.className = "label";
  heading.id = id;
  heading.textContent = label;
  const group = document.createElement("div");
  group.className = "options";
  group.setAttribute("role", "radiogroup");
  group.setAttribute("aria-labelledby", id);
  const buttons = options.map((option) => {
    const button = document.createElement("button");
    button.type = "button";
    button.setAttribute("role", "radio");
    if (option.name !== undefined) button.setAttribute("aria-label", option.name);
    if (option.fill) option.fill(button);
    else button.textContent = option.text;
    button.addEventListener("click", () => {
      mark(option.value);
      choose(option.value);
    });
    group.append(button);
    return button;
  });
  const mark = (value) => {
    options.forEach((option, i) => {
      buttons[i].setAttribute("aria-checked", String(option.value === value));
      buttons[i].tabIndex = option.value === value ? 0 : -1;
    });
  };
  group.addEventListener("keydown", (event) => {
    const at = buttons.indexOf(document.activeElement);
    if (at < 0 || event.altKey || event.ctrlKey || event.metaKey) return;
    const to = {
      ArrowRight: at + 1,
      ArrowDown: at + 1,
      ArrowLeft: at - 1,
      ArrowUp: at - 1,
      Home: 0,
      End: buttons.length - 1,
    }[event.key];
    if (to === undefined) return;
    event.preventDefault();
    buttons[to]?.focus();
    buttons[to]?.click();
  });
  mark(chosen);
  container.replaceChildren(heading, group);
  // A choice of one is no choice.
  container.hidden = options.length < 2;
}

function setTheme(theme) {
  document.documentElement.dataset.theme = theme;
  const button = document.getElementById("theme");
  button.textContent = theme === "dark" ? "Light" : "Dark";
  button.setAttribute("aria-label", theme === "dark" ? "Use light colours" : "Use dark colours");
}

const prefersDark = window.matchMedia("(prefers-color-scheme: dark)");
let themeChosen = false;
setTheme(prefersDark.matches ? "dark" : "light");
prefersDark.addEventListener("change", () => themeChosen || setTheme(prefersDark.matches ? "dark" : "light"));
document.getElementById("theme").addEventListener("click", () => {
  themeChosen = true;
  setTheme(document.documentElement.dataset.theme === "dark" ? "light" : "dark");
});
