// Controls, and the selection that all views share.

// `heads` is the set of selected heads, or null for all of them.
const state = { kind: null, layer: 0, heads: null, head: 0, query: 0, key: 0 };
let attentions = {};
let refresh = () => {};

/** Change the selection and redraw the current view. */
function setState(values) {
  Object.assign(state, values);
  refresh();
}

// The selection, limited to the layers, heads and positions that this kind of attention has.
const currentLayer = (attention) => Math.min(state.layer, attention.layers - 1);
const currentHead = (attention) => Math.min(state.head, attention.heads - 1);
const currentQuery = (attention) => Math.min(state.query, attention.queries.length - 1);
const currentKey = (attention) => Math.min(state.key, attention.keys.length - 1);

function currentHeads(attention) {
  const all = d3.range(attention.heads);
  const selected = all.filter((head) => state.heads === null || state.heads.has(head));
  return selected.length ? selected : all;
}

/** Return the selected kind of attention if the view supports it, and otherwise the first kind that it supports. */
function currentAttention(kinds) {
  return attentions[kinds.includes(state.kind) ? state.kind : kinds[0]];
}

/**
 * Let arrow keys move the focus among the items of a container; only one item is in the tab order.
 *
 * `columns` returns the number of items in a row; `chosen` returns true for the item that Tab reaches first; `moved` is
 * called with the item that has received the focus. Returns a function to call after items were added or removed.
 */
function rovingTabindex(container, selector, { columns = () => Infinity, chosen = null, moved = () => {} } = {}) {
  const items = () => [...container.querySelectorAll(selector)];
  const updateTabOrder = (entry) => {
    const all = items();
    const focused = all.find((item) => item === document.activeElement);
    const first = entry ?? focused ?? (chosen && all.find(chosen)) ?? all[0];
    for (const item of all) item.tabIndex = item === first ? 0 : -1;
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
    if (item) updateTabOrder(item);
  });
  return () => updateTabOrder();
}

/**
 * Call `changed` with the datum of the active item, or null. The active item is the one under the mouse, or else the
 * one with keyboard focus, or else the one that was clicked. A click pins an item until the next click or Escape.
 */
function trackPointer(container, selector, changed, same = (a, b) => a === b) {
  let hovered = null;
  let focused = null;
  let pinned = null;
  const itemOf = (event) => event.target.closest(selector);
  const datumOf = (event) => (itemOf(event) ? d3.select(itemOf(event)).datum() : null);
  const notify = () => changed(hovered ?? focused ?? pinned);
  const listen = (type, react) =>
    container.addEventListener(type, (event) => {
      react(event);
      notify();
    });
  listen("pointerover", (event) => (hovered = datumOf(event)));
  listen("pointerleave", () => (hovered = null));
  listen("focusin", (event) => (focused = itemOf(event)?.matches(":focus-visible") ? datumOf(event) : null));
  listen("focusout", () => (focused = null));
  listen("click", (event) => {
    const datum = datumOf(event);
    pinned = datum === null || (pinned !== null && same(pinned, datum)) ? null : datum;
  });
  listen("keydown", (event) => {
    if (event.key !== "Escape" || pinned === null) return;
    pinned = null;
    event.preventDefault();
  });
  return {
    isPinned: (datum) => pinned !== null && same(pinned, datum),
    current: () => hovered ?? focused ?? pinned,
    forget: () => (hovered = focused = pinned = null),
  };
}

let labels = 0;

function labelled(parent, label) {
  const id = `label-${labels++}`;
  const control = parent.append("div").attr("class", "control");
  control.append("span").attr("class", "label").attr("id", id).text(label);
  return control.append("div").attr("class", "segments").attr("aria-labelledby", id);
}

/** Add a group of radio buttons. Returns a function that shows options ({ value, text, colour }) and the chosen one. */
function radioGroup(parent, label, choose) {
  const group = labelled(parent, label).attr("role", "radiogroup");
  const updateTabOrder = rovingTabindex(group.node(), "button", {
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
    updateTabOrder();
  };
}

/** Add buttons that show or hide heads: a click toggles a head, Shift or a double click shows only this head. */
function headToggles(parent) {
  const group = labelled(parent, "Heads").attr("role", "group");
  const all = group
    .append("button")
    .attr("type", "button")
    .text("all")
    .on("click", () => setState({ heads: null }));
  const updateTabOrder = rovingTabindex(group.node(), "button");
  const alone = (head) => setState({ heads: new Set([head]), head });
  return (attention) => {
    const shown = new Set(currentHeads(attention));
    all.attr("aria-pressed", String(shown.size === attention.heads));
    group
      .selectAll("button.coloured")
      .data(d3.range(attention.heads))
      .join((enter) => enter.append("button").attr("type", "button").attr("class", "coloured"))
      .text((head) => head + 1)
      .attr("aria-label", (head) => `Head ${head + 1}`)
      .attr("title", (head) => {
        const { name, value } = roleOf(attention, currentLayer(attention), head);
        return `Head ${head + 1}: ${name}, ${value}`;
      })
      .style("--colour", headColour)
      .attr("aria-pressed", (head) => String(shown.has(head)))
      .on("click", (event, head) => {
        if (event.shiftKey) return alone(head);
        const next = new Set(shown);
        if (!next.delete(head)) next.add(head);
        setState({ heads: next.size ? next : null, head: next.has(head) ? head : state.head });
      })
      .on("keydown", (event, head) => {
        if (event.key !== "Enter" || !event.shiftKey) return;
        event.preventDefault();
        alone(head);
      })
      .on("dblclick", (event, head) => alone(head));
    updateTabOrder();
  };
}

/** Add controls for kind of attention, layer, and one or several heads. Returns a function that updates them. */
function attentionControls(panel, kinds, { heads = "none" } = {}) {
  const bar = panel.append("div").attr("class", "controls");
  // A model of one text has one kind of attention.
  const chooseKind = isText ? () => {} : radioGroup(bar, "Attention", (kind) => setState({ kind }));
  const chooseLayer = radioGroup(bar, "Layer", (layer) => setState({ layer }));
  const chooseHead = heads === "one" ? radioGroup(bar, "Head", (head) => setState({ head })) : null;
  const toggleHeads = heads === "many" ? headToggles(bar) : null;
  return (attention) => {
    chooseKind(
      kinds.map((kind) => ({ value: kind, text: SHORT_NAMES[kind], title: KIND_NAMES[kind] })),
      attention.kind,
    );
    chooseLayer(
      d3.range(attention.layers).map((layer) => ({ value: layer, text: layer + 1 })),
      currentLayer(attention),
    );
    chooseHead?.(
      d3.range(attention.heads).map((head) => ({ value: head, text: head + 1, colour: headColour(head) })),
      currentHead(attention),
    );
    toggleHeads?.(attention);
  };
}

/** Add the title of a view and a short introduction. */
function addHeading(panel, title, text) {
  panel.append("h2").text(title);
  panel.append("p").attr("class", "lead").text(text);
}

/** Add a note in place of a picture whose data the page does not contain, optionally with code that adds the data. */
function addNote(panel, text, code = null) {
  const box = panel.append("div").attr("class", "note");
  box.append("p").text(text);
  if (code) box.append("pre").append("code").text(code);
}
