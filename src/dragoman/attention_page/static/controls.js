// What one chooses with, and what all views share of it.

const state = { kind: null, layer: 0, heads: null, head: 0, query: 0, key: 0 };
let attentions = {};
let refresh = () => {};

/** Change what is shown. */
function change(values) {
  Object.assign(state, values);
  refresh();
}

// Kinds have different numbers of layers and heads: what is chosen holds where it exists.
const layerIn = (attention) => Math.min(state.layer, attention.layers - 1);
const headIn = (attention) => Math.min(state.head, attention.heads - 1);
const queryIn = (attention) => Math.min(state.query, attention.queries.length - 1);
const keyIn = (attention) => Math.min(state.key, attention.keys.length - 1);

function headsIn(attention) {
  const all = d3.range(attention.heads);
  const some = all.filter((head) => state.heads === null || state.heads.has(head));
  return some.length ? some : all;
}

/** The chosen kind of attention, or the first of those that a view can show. */
function attentionAmong(kinds) {
  return attentions[kinds.includes(state.kind) ? state.kind : kinds[0]];
}

/**
 * Let arrow keys move the focus among the items of a container, of which one is in the tab order.
 *
 * `columns` tells how many items stand in a row, `chosen` picks the item that Tab reaches first. Returns a function to
 * call when items have come or gone.
 */
function roving(container, selector, { columns = () => Infinity, chosen = null, moved = () => {} } = {}) {
  const items = () => [...container.querySelectorAll(selector)];
  const settle = (entry) => {
    const all = items();
    const one = entry ?? all.find((item) => item === document.activeElement) ?? (chosen && all.find(chosen)) ?? all[0];
    for (const item of all) item.tabIndex = item === one ? 0 : -1;
  };
  container.addEventListener("keydown", (event) => {
    const all = items();
    const at = all.indexOf(document.activeElement);
    if (at < 0 || event.altKey || event.ctrlKey || event.metaKey) return;
    const forward = getComputedStyle(container).direction === "rtl" ? -1 : 1;
    const down = Number.isFinite(columns()) ? columns() : 1;
    const steps = { ArrowRight: forward, ArrowLeft: -forward, ArrowDown: down, ArrowUp: -down };
    let to;
    if (event.key in steps) to = at + steps[event.key];
    else if (event.key === "Home") to = 0;
    else if (event.key === "End") to = all.length - 1;
    else return;
    event.preventDefault();
    if (to < 0 || to >= all.length) return;
    all[to].focus();
    moved(all[to]);
  });
  container.addEventListener("focusin", (event) => {
    const item = event.target.closest(selector);
    if (item) settle(item);
  });
  return () => settle();
}

/**
 * Call `changed` with the datum of the item that is pointed at, or null: under the mouse, else reached by keys, else
 * clicked. A click holds an item until the next one, or Escape.
 */
function pointing(container, selector, changed, same = (a, b) => a === b) {
  let hovered = null;
  let focused = null;
  let held = null;
  const itemOf = (event) => event.target.closest(selector);
  const datumOf = (event) => (itemOf(event) ? d3.select(itemOf(event)).datum() : null);
  const tell = () => changed(hovered ?? focused ?? held);
  const listen = (type, react) =>
    container.addEventListener(type, (event) => {
      react(event);
      tell();
    });
  listen("pointerover", (event) => (hovered = datumOf(event)));
  listen("pointerleave", () => (hovered = null));
  listen("focusin", (event) => (focused = itemOf(event)?.matches(":focus-visible") ? datumOf(event) : null));
  listen("focusout", () => (focused = null));
  listen("click", (event) => {
    const datum = datumOf(event);
    held = datum === null || (held !== null && same(held, datum)) ? null : datum;
  });
  listen("keydown", (event) => {
    if (event.key === "Escape") held = null;
  });
  return {
    isHeld: (datum) => held !== null && same(held, datum),
    current: () => hovered ?? focused ?? held,
    forget: () => (hovered = focused = held = null),
  };
}

let labels = 0;

function labelled(parent, label) {
  const id = `label-${labels++}`;
  const control = parent.append("div").attr("class", "control");
  control.append("span").attr("class", "label").attr("id", id).text(label);
  return control.append("div").attr("class", "segments").attr("aria-labelledby", id);
}

/** A row of which one is chosen. Returns a function that shows options ({ value, text, colour }) and the chosen one. */
function radioGroup(parent, label, choose) {
  const group = labelled(parent, label).attr("role", "radiogroup");
  const settle = roving(group.node(), "button", {
    chosen: (item) => item.getAttribute("aria-checked") === "true",
    moved: (item) => item.click(),
  });
  return (options, chosen) => {
    group
      .selectAll("button")
      .data(options, (option) => option.value)
      .join((enter) =>
        enter
          .append("button")
          .attr("type", "button")
          .attr("role", "radio")
          .on("click", (event, option) => choose(option.value)),
      )
      .text((option) => option.text)
      .attr("title", (option) => option.title ?? null)
      .style("--colour", (option) => option.colour ?? null)
      .classed("coloured", (option) => option.colour !== undefined)
      .attr("aria-checked", (option) => String(option.value === chosen));
    settle();
  };
}

/** Heads to switch on and off: a click toggles one, Shift or a double click shows it alone. */
function headToggles(parent) {
  const group = labelled(parent, "Heads").attr("role", "group");
  const all = group
    .append("button")
    .attr("type", "button")
    .text("all")
    .on("click", () => change({ heads: null }));
  const settle = roving(group.node(), "button");
  const alone = (head) => change({ heads: new Set([head]), head });
  return (attention) => {
    const shown = new Set(headsIn(attention));
    all.attr("aria-pressed", String(shown.size === attention.heads));
    group
      .selectAll("button.coloured")
      .data(d3.range(attention.heads))
      .join((enter) => enter.append("button").attr("type", "button").attr("class", "coloured"))
      .text((head) => head + 1)
      .attr("aria-label", (head) => `Head ${head + 1}`)
      .attr("title", (head) => {
        const { name, figure } = roleOf(attention, layerIn(attention), head);
        return `Head ${head + 1}: ${name}, ${figure}`;
      })
      .style("--colour", headColour)
      .attr("aria-pressed", (head) => String(shown.has(head)))
      .on("click", (event, head) => {
        if (event.shiftKey) return alone(head);
        const next = new Set(shown);
        if (!next.delete(head)) next.add(head);
        change({ heads: next.size ? next : null, head: next.has(head) ? head : state.head });
      })
      .on("keydown", (event, head) => {
        if (event.key !== "Enter" || !event.shiftKey) return;
        event.preventDefault();
        alone(head);
      })
      .on("dblclick", (event, head) => alone(head));
    settle();
  };
}

/** Kind of attention, layer, and one head or several. Returns a function that shows what is chosen. */
function attentionControls(panel, kinds, { heads = "none" } = {}) {
  const bar = panel.append("div").attr("class", "controls");
  const chooseKind = radioGroup(bar, "Attention", (kind) => change({ kind }));
  const chooseLayer = radioGroup(bar, "Layer", (layer) => change({ layer }));
  const chooseHead = heads === "one" ? radioGroup(bar, "Head", (head) => change({ head })) : null;
  const toggleHeads = heads === "many" ? headToggles(bar) : null;
  return (attention) => {
    chooseKind(
      kinds.map((kind) => ({ value: kind, text: SHORT_NAMES[kind], title: KIND_NAMES[kind] })),
      attention.kind,
    );
    chooseLayer(
      d3.range(attention.layers).map((layer) => ({ value: layer, text: layer + 1 })),
      layerIn(attention),
    );
    chooseHead?.(
      d3.range(attention.heads).map((head) => ({ value: head, text: head + 1, colour: headColour(head) })),
      headIn(attention),
    );
    toggleHeads?.(attention);
  };
}

/** What a view is about, in a sentence or two. */
function lead(panel, heading, text) {
  panel.append("h2").text(heading);
  panel.append("p").attr("class", "lead").text(text);
}

/** What stands in place of a picture for which there are no numbers. */
function note(panel, text, code = null) {
  const box = panel.append("div").attr("class", "note");
  box.append("p").text(text);
  if (code) box.append("pre").append("code").text(code);
}
