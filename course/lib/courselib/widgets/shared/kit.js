// What figures are made of: controls bound to the widget's state, axes, tables. It stands before a module's own text.
const kit = (() => {
  const PREFIXES = [[1e12, "T"], [1e9, "G"], [1e6, "M"], [1e3, "k"], [1, ""], [1e-3, "m"], [1e-6, "µ"], [1e-9, "n"]];

  // As courselib.svg.si: si(0.00021, "s") is "210 µs"; without a unit thousands only.
  function si(value, unit = "", digits = 3) {
    if (value === 0) return `0 ${unit}`.trim();
    const rounded = Number(value.toPrecision(digits));
    let [scale, prefix] = PREFIXES.find(([each]) => Math.abs(rounded) >= each * (1 - 1e-9)) ?? PREFIXES.at(-1);
    if (!unit && scale < 1) [scale, prefix] = [1, ""];
    const number = Number((rounded / scale).toPrecision(10));
    return unit ? `${number} ${prefix}${unit}` : `${number}${prefix}`;
  }

  // Seconds as people say them: 90 is "1.5 min".
  function time(value) {
    const [scale, unit] = [[86400, "d"], [3600, "h"], [60, "min"]].find(([each]) => value >= each * (1 - 1e-9)) ?? [0, ""];
    return scale ? `${Number((value / scale).toPrecision(3))} ${unit}` : si(value, "s");
  }

  const percent = (share) => `${(100 * share).toFixed(share > 0 && share < 0.1 ? 1 : 0)} %`;
  const escape = (text) => String(text).replace(/[&<>"]/g, (each) => `&#${each.charCodeAt(0)};`);

  // All 1, 2, 5, 10, 20, ... (or those of `steps`) from low to high.
  function rounds(low, high, steps = [1, 2, 5]) {
    const found = [];
    for (let power = Math.floor(Math.log10(low)); power <= Math.log10(high) + 1e-9; power++)
      for (const step of steps) found.push(Number(`${step}e${power}`));
    return found.filter((each) => each >= low * (1 - 1e-9) && each <= high * (1 + 1e-9));
  }

  const powers = (from, to, base = 2) => Array.from({ length: to - from + 1 }, (_, at) => base ** (from + at));
  const range = (low, high) => Array.from({ length: high - low + 1 }, (_, at) => low + at);

  function make(tag, parent, kind = "", text = "") {
    const made = document.createElement(tag);
    if (kind) made.className = kind;
    made.textContent = text;
    parent.append(made);
    return made;
  }

  // ---- SVG, as text

  const text = (x, y, words, anchor = "start", colour = "faint", more = "") =>
    `<text x="${x.toFixed(1)}" y="${y.toFixed(1)}" text-anchor="${anchor}" fill="var(--${colour})" ${more}>${escape(words)}</text>`;

  // Words beside a point, on the side where there is room.
  function label(width, x, y, words) {
    const left = x + 10 + LETTER * words.length > width - 14;
    return text(x + (left ? -8 : 8), y, words, left ? "end" : "start", "ink", 'style="paint-order: stroke; stroke: var(--paper); stroke-width: 4px"');
  }

  const LETTER = 6.4; // about the width of one, at 11 px

  function ticks({ low, high, log }, most) {
    if (log) {
      const decades = Math.log10(high / low), fine = rounds(low, high);
      if (fine.length <= most) return fine;
      const every = Math.ceil(decades / most), first = Math.ceil(Math.log10(low) - 1e-9);
      return range(first, Math.floor(Math.log10(high) + 1e-9)).filter((each) => (each - first) % every === 0).map((each) => 10 ** each);
    }
    const step = rounds(1e-12, high).find((each) => (high - low) / each <= most) ?? high - low;
    return range(Math.ceil(low / step - 1e-9), Math.floor(high / step + 1e-9)).map((each) => each * step);
  }

  // A frame with two axes { low, high, log, unit, label }: its SVG, where a point lies, and its edges.
  function frame(width, height, across, up, top = 0) {
    const left = 64, right = width - 22, bottom = height - 44;
    const share = (axis, value) =>
      axis.log ? Math.log(value / axis.low) / Math.log(axis.high / axis.low) : (value - axis.low) / (axis.high - axis.low);
    const x = (value) => left + (right - left) * share(across, value);
    const y = (value) => top + 8 + (bottom - top - 8) * (1 - share(up, value));
    const parts = [];
    for (const tick of across.ticks ?? ticks(across, (right - left) / 70)) {
      parts.push(`<path d="M${x(tick).toFixed(1)} ${top + 8}V${bottom}" stroke="var(--grid)"/>`);
      parts.push(text(x(tick), bottom + 16, (across.show ?? si)(tick, across.unit), "middle"));
    }
    for (const tick of ticks(up, (bottom - top) / 36)) {
      parts.push(`<path d="M${left} ${y(tick).toFixed(1)}H${right}" stroke="var(--grid)"/>`);
      parts.push(text(left - 6, y(tick) + 4, (up.show ?? si)(tick, up.unit), "end"));
    }
    parts.push(`<path d="M${left} ${top + 8}V${bottom}H${right}" fill="none" stroke="var(--faint)"/>`);
    parts.push(text((left + right) / 2, height - 10, across.label ?? "", "middle", "ink"));
    parts.push(`<g transform="translate(12 ${((top + bottom) / 2).toFixed()}) rotate(-90)">${text(0, 0, up.label ?? "", "middle", "ink")}</g>`);
    return { svg: parts.join(""), x, y, left, right, top: top + 8, bottom };
  }

  const line = (points, colour, dash = "", wide = 2) =>
    `<polyline points="${points.map(([x, y]) => `${x.toFixed(1)},${y.toFixed(1)}`).join(" ")}" fill="none" stroke="var(--${colour})" stroke-width="${wide}" stroke-dasharray="${dash}"/>`;

  const dot = (x, y, colour, hover = "", r = 5) =>
    `<circle cx="${x.toFixed(1)}" cy="${y.toFixed(1)}" r="${r}" fill="var(--${colour})" stroke="var(--paper)"><title>${escape(hover)}</title></circle>`;

  // Horizontal bars of `parts` on top of each other, each row { name, values, words }, from `top` on; `most` fills the
  // width. `limit` is a value that is marked by a line.
  function stacked(width, top, rows, parts, most, { limit, left = 76, right = 96 } = {}) {
    const out = [], scale = (width - left - right) / most;
    rows.forEach(({ name, values, words, pale }, at) => {
      const y = top + 24 * at;
      let x = left;
      out.push(text(left - 6, y + 14, name, "end", "ink"));
      values.forEach((value, part) => {
        const wide = Math.min(value * scale, width - right - x + 8);
        if (wide > 0) out.push(`<rect x="${x.toFixed(2)}" y="${y}" width="${wide.toFixed(2)}" height="18" fill="var(--${parts[part].colour})" opacity="${pale ? 0.45 : 1}"><title>${escape(name)}: ${escape(parts[part].name)}</title></rect>`);
        x += wide;
      });
      out.push(text(x + 5, y + 14, words, "start", "ink", pale ? "" : 'font-weight="600"'));
    });
    if (limit) {
      const x = left + limit * scale;
      out.push(`<path d="M${x.toFixed(1)} ${top - 4}V${top + 24 * rows.length}" stroke="var(--c1)" stroke-width="2" stroke-dasharray="4 3"/>`);
    }
    return out.join("");
  }

  // Samples of { name, colour, dash } in rows that fit; with a `box` for areas. Returns their SVG and height.
  function legend(width, items) {
    let x = 4, y = 12;
    const parts = [];
    for (const { name, colour, dash, box } of items) {
      const wide = 34 + LETTER * name.length;
      if (x + wide > width && x > 4) [x, y] = [4, y + 18];
      parts.push(
        box
          ? `<rect x="${x}" y="${y - 9}" width="16" height="11" rx="2" fill="var(--${colour})"/>`
          : line([[x, y - 4], [x + 22, y - 4]], colour, dash),
        text(x + 26, y, name, "start", "ink"),
      );
      x += wide + 6;
    }
    return { svg: parts.join(""), height: y + 8 };
  }

  // ---- the figure

  // A control for `name` of the state: by `values` a slider, by `options` a list to choose from, else a box to tick.
  function control(box, model, { name, label, values, options, show = String }) {
    const row = make("label", box, options || values ? "" : "tick");
    make("span", row, "", label);
    const field = make(options ? "select" : "input", row);
    const said = values && make("output", row);
    if (options) for (const [value, words] of Object.entries(options)) make("option", field, "", words).value = value;
    else field.type = values ? "range" : "checkbox";
    if (said) said.setAttribute("aria-live", "off"); // the slider says it itself
    if (values) [field.min, field.max, field.step] = [0, values.length - 1, 1];
    const nearest = (value) => values.reduce((best, each, at) => (Math.abs(Math.log(each + 1e-15) - Math.log(value + 1e-15)) < Math.abs(Math.log(values[best] + 1e-15) - Math.log(value + 1e-15)) ? at : best), 0);
    const update = () => {
      const value = model.get(name);
      if (values) {
        field.value = nearest(value);
        said.textContent = show(value);
        field.setAttribute("aria-valuetext", show(value));
      } else if (options) field.value = value;
      else field.checked = value;
    };
    field.oninput = () => {
      const old = model.get(name);
      model.set(name, values ? values[field.value] : options ? (typeof old === "number" ? Number(field.value) : field.value) : field.checked);
      model.save_changes();
    };
    model.on(`change:${name}`, update);
    update();
  }

  // `draw(state, view)` is called now, when the state changes and when the width does: it sets view.svg's content by
  // view.paint(svg, height), the lines below it by view.table(head, rows, marked) and view.say(text).
  function figure({ model, el }, { names, controls, buttons = {}, hint, draw, interact }) {
    el.dataset.lmSuppressShortcuts = "true"; // JupyterLab's keys are not meant here
    const box = make("figure", el, "rankup-figure");
    make("style", box, "", STYLE);
    make("figcaption", box, "", model.get("title"));
    const panel = make("div", box, "controls");
    for (const each of controls) control(panel, model, each);
    for (const [words, press] of Object.entries(buttons)) {
      const button = make("button", panel, "", words);
      button.type = "button";
      button.onclick = () => press(set, state);
    }
    const svg = document.createElementNS("http://www.w3.org/2000/svg", "svg");
    svg.setAttribute("role", interact ? "group" : "img");
    svg.setAttribute("aria-label", model.get("title"));
    box.append(svg);
    if (hint) make("p", box, "hint", hint);
    const below = make("div", box, "below"), said = make("p", box, "said");
    said.setAttribute("role", "status");
    const asked = make("div", box, "question");
    make("b", make("p", asked, "", ""), "", model.get("question"));
    const answer = make("details", asked);
    make("summary", answer, "", "Answer");
    make("p", answer, "", model.get("answer"));
    box.addEventListener("keydown", (event) => event.stopPropagation()); // JupyterLab's cells have keys of their own

    const state = () => Object.fromEntries(names.map((name) => [name, model.get(name)]));
    const set = (changed) => {
      for (const [name, value] of Object.entries(changed)) model.set(name, value);
      model.save_changes();
    };
    const view = {
      svg,
      width: 680,
      set,
      say: (words) => { if (said.textContent !== words) said.textContent = words; },
      paint(content, height) {
        svg.setAttribute("viewBox", `0 0 ${view.width} ${height}`);
        svg.setAttribute("width", view.width);
        svg.setAttribute("height", height);
        svg.innerHTML = content;
      },
      table(head, rows, marked = -1) {
        below.replaceChildren();
        const table = make("table", below);
        const top = make("tr", make("thead", table));
        for (const each of head) make("th", top, "", each);
        const body = make("tbody", table);
        rows.forEach((row, at) => {
          const line = make("tr", body, at === marked ? "marked" : "");
          for (const each of row) make("td", line, "", each);
        });
      },
    };
    let due = false;
    const redraw = () => {
      if (due) return;
      due = true; // several changes at once are drawn once
      queueMicrotask(() => { due = false; draw(state(), view); });
    };
    for (const name of names) model.on(`change:${name}`, redraw);
    const observer = new ResizeObserver(() => {
      const width = Math.max(280, Math.min(680, box.clientWidth));
      if (width !== view.width) { view.width = width; redraw(); }
    });
    observer.observe(box);
    if (interact) interact(view, state);
    draw(state(), view);
    return () => observer.disconnect();
  }

  const STYLE = `
.rankup-figure { /*COLOURS*/ color: var(--ink); background: var(--paper); max-width: 680px; margin: 6px 0; font: 13px/1.45 system-ui, sans-serif; }
/*DARK*/
.rankup-figure figcaption { font-size: 15px; font-weight: 600; color: inherit; margin: 4px 0; text-align: left; }
.rankup-figure .controls { display: grid; grid-template-columns: repeat(auto-fill, minmax(min(200px, 40vw), 1fr)); gap: 4px 16px; align-items: end; margin: 6px 0; }
.rankup-figure label { display: grid; grid-template-columns: 1fr auto; gap: 0 8px; margin: 0; font-weight: 400; color: inherit; }
.rankup-figure label > input[type=range], .rankup-figure label > select { grid-column: 1 / -1; width: 100%; margin: 0; }
.rankup-figure label > input[type=range] { grid-row: 2; accent-color: var(--c0); }
.rankup-figure label > output { grid-row: 1; grid-column: 2; font-variant-numeric: tabular-nums; font-weight: 600; padding: 0; color: inherit; }
.rankup-figure label.tick { grid-template-columns: auto auto; justify-content: start; }
.rankup-figure :is(button, select) { font: inherit; color: inherit; background: var(--paper); border: 1px solid var(--faint); border-radius: 6px; padding: 3px 8px; }
.rankup-figure button { cursor: pointer; }
.rankup-figure :is(input, select, button, summary, [tabindex]):focus-visible { outline: 2px solid var(--c3); outline-offset: 1px; }
.rankup-figure svg { display: block; font: 11px system-ui, sans-serif; max-width: 100%; }
.rankup-figure .below { overflow-x: auto; }
.rankup-figure table { border-collapse: collapse; margin: 4px 0; font-size: 12px; color: inherit; }
.rankup-figure :is(td, th) { border: 0; border-bottom: 1px solid var(--grid); padding: 2px 10px 2px 0; text-align: left; white-space: nowrap; font-variant-numeric: tabular-nums; background: none; color: inherit; }
.rankup-figure tr { background: none !important; }
.rankup-figure th { white-space: normal; vertical-align: bottom; font-weight: 400; color: var(--faint); }
.rankup-figure tr.marked { font-weight: 700; }
.rankup-figure .hint { color: var(--faint); margin: 2px 0; font-size: 12px; }
.rankup-figure .said { margin: 6px 0; min-height: 1.4em; }
.rankup-figure .question { border-left: 4px solid var(--c3); padding: 0 12px; margin: 8px 0 4px; }
.rankup-figure .question p { margin: 2px 0; }
.rankup-figure details { border: 0; margin: 0; padding: 0; }
.rankup-figure summary { cursor: pointer; color: var(--c3) !important; background: none !important; }
`;

  return { si, time, percent, rounds, powers, range, text, label, frame, line, dot, stacked, legend, figure, escape, LETTER };
})();
