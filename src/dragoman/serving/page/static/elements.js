// Elements of the page. Text from outside only ever becomes a text node.

export const byId = (id) => document.getElementById(id);

/** Return a new element with properties and children; strings become text. */
export function element(tag, properties = {}, ...children) {
  const made = document.createElement(tag);
  for (const [name, value] of Object.entries(properties)) {
    if (name in made) made[name] = value;
    else made.setAttribute(name, value);
  }
  made.append(...children);
  return made;
}

/** Return a message of the server as a sentence. */
export const sentenceOf = (message) =>
  message.charAt(0).toUpperCase() + message.slice(1) + (/[.!?…]$/.test(message) ? "" : ".");

/** Read a value that this page stored, or `otherwise` if there is none that can be read. */
export function stored(name, otherwise) {
  try {
    return JSON.parse(localStorage.getItem(`dragoman.${name}`)) ?? otherwise;
  } catch {
    return otherwise;
  }
}

/** Store a value. If the browser's storage is full or closed to the page, the value lasts until the page is left. */
export function store(name, value) {
  try {
    localStorage.setItem(`dragoman.${name}`, JSON.stringify(value));
  } catch (error) {
    if (!(error instanceof DOMException)) throw error;
  }
}

/** Have a screen reader read strings and elements aloud. */
export const announce = (...parts) => byId("status").replaceChildren(...parts);
