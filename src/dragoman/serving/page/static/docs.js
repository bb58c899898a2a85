// Shows the OpenAPI description of the server.

import { byId, element } from "./elements.js";

const nameOf = (reference) => reference.split("/").at(-1);

/** Return the type of a schema as text and links to other schemas. */
function type(schema) {
  if (schema.$ref) {
    const name = nameOf(schema.$ref);
    return [element("a", { href: `#${name}` }, name)];
  }
  if (schema.anyOf) return schema.anyOf.filter((each) => each.type !== "null").flatMap(type);
  if (schema.enum) return [schema.enum.map((value) => JSON.stringify(value)).join(" | ")];
  if (schema.prefixItems) return ["[", ...schema.prefixItems.flatMap((item, n) => [n ? ", " : "", ...type(item)]), "]"];
  if (schema.type === "array") return [...type(schema.items), "[]"];
  return [schema.type ?? "any"];
}

function limits(schema) {
  const names = { maxItems: "at most", minItems: "at least", maximum: "at most", minimum: "at least" };
  const list = Object.keys(names).filter((name) => name in schema).map((name) => `${names[name]} ${schema[name]}`);
  if (schema.default !== undefined && schema.default !== null) list.push(`default ${JSON.stringify(schema.default)}`);
  return list.length ? ` (${list.join(", ")})` : "";
}

function schemaOf({ content }) {
  const [[kind, { schema }]] = Object.entries(content);
  return [...type(schema), kind === "application/json" ? "" : ` (${kind})`];
}

/** Return a row of a table. The roles are explicit, since a narrow screen shows the cells below each other. */
function row(head, ...cells) {
  return element(
    "tr",
    { role: "row" },
    element("th", { scope: "row", role: "rowheader" }, ...head),
    ...cells.map((cell) => element("td", { role: "cell" }, ...cell)),
  );
}

function operation(path, method, { summary, requestBody, responses }) {
  const rows = Object.entries(responses).map(([status, answer]) =>
    row([status], schemaOf(answer), [answer.description]),
  );
  return element(
    "section",
    { className: "card" },
    element("h2", {}, element("span", { className: "method" }, method.toUpperCase()), " ", element("code", {}, path)),
    element("p", {}, summary, "."),
    ...(requestBody ? [element("p", {}, "Body: ", ...schemaOf(requestBody))] : []),
    element("div", { className: "scroll", tabIndex: 0, role: "group", "aria-label": `Answers of ${path}` }, element("table", { role: "table" }, ...rows)),
  );
}

function schemaCard([name, schema]) {
  const required = schema.required ?? [];
  const rows = Object.entries(schema.properties).map(([key, each]) =>
    row(
      [element("code", {}, key), required.includes(key) ? "" : " (optional)"],
      type(each),
      [(each.description ?? "") + limits(each)],
    ),
  );
  return element(
    "section",
    { className: "card", id: name },
    element("h3", {}, name),
    element("p", {}, schema.description ?? ""),
    element("div", { className: "scroll", tabIndex: 0, role: "group", "aria-label": `Fields of ${name}` }, element("table", { role: "table" }, ...rows)),
  );
}

const description = await (await fetch("openapi.json")).json();
byId("about").textContent = `${description.info.description} Version ${description.info.version}.`;
byId("operations").replaceChildren(
  ...Object.entries(description.paths).flatMap(([path, methods]) =>
    Object.entries(methods).map(([method, each]) => operation(path, method, each)),
  ),
);
byId("schemas").replaceChildren(...Object.entries(description.components.schemas).map(schemaCard));
