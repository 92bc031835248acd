// A pipeline schedule as lanes: each stage makes its passes in its order, each as early as that allows. "F3" is
// micro-batch 3 forward, "B3.1" backward through piece 1; a "W3" is the part of the backward pass for the weights.
const SCHEDULES = { gpipe: "GPipe", "1f1b": "1F1B", interleaved: "interleaved 1F1B", "zb-h1": "ZB-H1", own: "your own" };
const FILLS = { F: "f0", B: "f1", W: "f2", f: "f3", b: "f4" };
const WORDS = { F: "forward", B: "backward", W: "backward, weights", f: "forward, later piece", b: "backward, later piece" };

function parts(name) {
  const [micro_batch, piece] = name.slice(1).split(".").map(Number);
  return { kind: name[0], micro_batch, piece: piece ?? 0 };
}

function alternating(warm, m) {
  const order = kit.range(0, Math.min(warm, m) - 1).map((at) => `F${at}`);
  for (let at = 0; at < m; at++) {
    if (warm + at < m) order.push(`F${warm + at}`);
    order.push(`B${at}`);
  }
  return order;
}

function interleaved(stage, p, m, v) {
  const count = m * v, warm = Math.min(2 * (p - stage - 1) + (v - 1) * p, count), order = [];
  const unit = (number, kind) => {
    let piece = Math.floor((number % (p * v)) / p);
    if (kind === "B") piece = v - 1 - piece;
    const micro_batch = Math.floor(number / (p * v)) * p + (number % p);
    return `${kind}${micro_batch}${piece ? `.${piece}` : ""}`;
  };
  for (let at = 0; at < warm; at++) order.push(unit(at, "F"));
  for (let at = 0; at < count; at++) {
    if (warm + at < count) order.push(unit(warm + at, "F"));
    order.push(unit(at, "B"));
  }
  return order;
}

// The backward passes cut in two; on stage s the weights' part waits for s more micro-batches.
function cut(order, late) {
  const found = [], waiting = [];
  for (const name of order) {
    found.push(name);
    if (name[0] === "B") waiting.push(`W${name.slice(1)}`);
    if (name[0] === "B" && waiting.length > late) found.push(waiting.shift());
  }
  return [...found, ...waiting];
}

// The order of passes on each stage; null if p does not divide m, which interleaving needs.
function orders({ schedule, stages: p, micro_batches: m, pieces, own }) {
  const lanes = kit.range(0, p - 1);
  if (schedule === "own" && fits(own, p, m)) return own;
  if (schedule === "gpipe") return lanes.map(() => ["F", "B"].flatMap((kind) => kit.range(0, m - 1).map((at) => kind + at)));
  if (schedule === "interleaved") return m % p ? null : lanes.map((stage) => interleaved(stage, p, m, pieces));
  const rows = lanes.map((stage) => alternating(p - stage - 1, m));
  return schedule === "1f1b" ? rows : rows.map((row, stage) => cut(row, schedule === "zb-h1" ? stage : 0));
}

const pieces_of = (rows) => 1 + Math.max(...rows.flat().map((name) => parts(name).piece));
const fits = (rows, p, m) => rows.length === p && rows[0].length === 3 * m * pieces_of(rows);

// What the rows of passes take; null if stages wait for each other forever.
function played(rows, { forward, backward, weights }) {
  const p = rows.length, v = pieces_of(rows), split = rows.flat().some((name) => name[0] === "W");
  const lasts = { F: forward / v, B: (backward + (split ? 0 : weights)) / v, W: weights / v };
  const ended = new Map(), done = rows.map(() => []);
  const needs = (kind, micro_batch, part) => {
    if (kind === "W") return `B${micro_batch}/${part}`;
    if (kind === "B") return part + 1 < p * v ? `B${micro_batch}/${part + 1}` : `F${micro_batch}/${part}`;
    return part ? `F${micro_batch}/${part - 1}` : "";
  };
  let moved = true;
  while (moved) {
    moved = false;
    rows.forEach((row, stage) => {
      while (done[stage].length < row.length) {
        const name = row[done[stage].length], { kind, micro_batch, piece } = parts(name), part = piece * p + stage;
        const before = needs(kind, micro_batch, part);
        if (before && !ended.has(before)) return;
        const since = Math.max(done[stage].at(-1)?.[2] ?? 0, before ? ended.get(before) : 0);
        ended.set(`${kind}${micro_batch}/${part}`, since + lasts[kind]);
        done[stage].push([name, since, since + lasts[kind]]);
        moved = true;
      }
    });
  }
  if (rows.some((row, stage) => done[stage].length < row.length)) return null;
  const seconds = Math.max(...done.map((row) => row.at(-1)[2]));
  const work = done[0].reduce((sum, [, since, until]) => sum + until - since, 0);
  return { rows: done, seconds, bubble: 1 - work / seconds, peaks: rows.map((row) => peak(row, split ? "W" : "B") / v) };
}

function peak(row, frees) {
  let most = 0, kept = 0;
  for (const name of row) {
    kept += (name[0] === "F") - (name[0] === frees);
    most = Math.max(most, kept);
  }
  return most;
}

const numbers = (state) => { const rows = orders(state); return rows && played(rows, state); };

function draw(state, view) {
  const found = numbers(state);
  if (!found) {
    view.paint("", 0);
    view.table([], []);
    return view.say(`Interleaving needs a number of micro-batches that the ${state.stages} stages divide, and ${state.micro_batches} is none.`);
  }
  const { rows, seconds, bubble, peaks } = found, left = 54, wide = view.width - left - 8;
  const at = (time) => left + (wide * time) / seconds;
  const kinds = new Set(rows.flat().map(([name]) => kind_of(name)));
  const key = kit.legend(view.width, [...kinds].map((kind) => ({ name: kind === "B" && !kinds.has("W") ? "backward, B and W in one" : WORDS[kind], colour: FILLS[kind], box: true })));
  const out = [key.svg], chosen = view.chosen ?? "0:F0";
  rows.forEach((row, stage) => {
    const y = key.height + 30 * stage;
    out.push(kit.text(0, y + 17, `stage ${stage}`, "start", "ink"), `<rect x="${left}" y="${y}" width="${wide}" height="24" fill="var(--grid)" rx="2"/>`);
    for (const [name, since, until] of row) {
      const x = at(since), room = at(until) - x, fill = FILLS[kind_of(name)], id = `${stage}:${name}`;
      const label = [name.split(".")[0], name.split(".")[0].slice(1), ""].find((each) => kit.LETTER * each.length + 2 <= room);
      out.push(
        `<g data-id="${id}" tabindex="${id === chosen ? 0 : -1}" role="button" aria-label="stage ${stage}, ${name}: ${since} s to ${until} s" style="cursor: grab; touch-action: none">` +
        `<title>${name}, ${WORDS[kind_of(name)]}: ${kit.si(since, "s")} to ${kit.si(until, "s")}</title>` +
        `<rect x="${x.toFixed(2)}" y="${y}" width="${room.toFixed(2)}" height="24" rx="2" fill="var(--${fill})" stroke="var(--paper)"/>` +
        `${kit.text(x + room / 2, y + 16, label, "middle", `${fill}i`, 'pointer-events="none"')}</g>`,
      );
    }
  });
  const bottom = key.height + 30 * rows.length;
  for (const share of [0, 0.25, 0.5, 0.75, 1]) {
    const anchor = share === 0 ? "start" : share === 1 ? "end" : "middle";
    out.push(kit.text(at(share * seconds), bottom + 12, kit.si(share * seconds, "s"), anchor));
  }
  const focused = view.svg.contains(document.activeElement);
  view.paint(out.join(""), bottom + 20);
  if (focused) view.svg.querySelector('[tabindex="0"]')?.focus();
  view.table(["", ...rows.map((_, stage) => `stage ${stage}`)], [["activations kept at most", ...peaks.map((each) => kit.si(each))]]);
  view.say(view.refused ?? `${SCHEDULES[state.schedule]}: ${kit.si(seconds, "s")} a step. Each stage is idle for ${(100 * bubble).toFixed(1)} % of it (gray), and works for ${kit.si(seconds * (1 - bubble), "s")}.`);
  view.refused = null;
}

const kind_of = (name) => (name.includes(".") && name[0] !== "W" ? name[0].toLowerCase() : name[0]);

// Passes are chosen by arrow keys and moved by Shift and an arrow key, or dragged; what comes out is "your own".
function interact(view, state) {
  const shown = () => {
    const rows = orders(state());
    return rows && (rows.flat().some((name) => name[0] === "W") ? rows : rows.map((row) => cut(row, 0)));
  };
  const focus = (id) => {
    view.chosen = id;
    for (const each of view.svg.querySelectorAll("[data-id]")) each.setAttribute("tabindex", each.dataset.id === id ? 0 : -1);
    view.svg.querySelector(`[data-id="${id}"]`)?.focus();
  };
  const move = (id, to) => {
    const stage = Number(id.split(":")[0]), name = id.split(":")[1], rows = shown().map((row) => [...row]), row = rows[stage];
    const from = row.indexOf(name), place = Math.max(0, Math.min(row.length - 1, to(from, row)));
    if (place === from) return;
    row.splice(place, 0, ...row.splice(from, 1));
    const same = ["F", "B", "W"].map((kind) => row.indexOf(kind + name.slice(1)));
    if (same[0] > same[1] || same[1] > same[2]) view.refused = `Not there: on each stage micro-batch ${name.slice(1)} goes forward (F), then backward (B), then come its weights (W).`;
    else if (!played(rows, state())) view.refused = `Not there: with ${name} at that place the stages would wait for each other forever.`;
    view.chosen = id;
    if (view.refused) { view.say(view.refused); view.refused = null; }
    else view.set({ own: rows, schedule: "own" });
  };
  view.svg.addEventListener("keydown", (event) => {
    const id = event.target.dataset?.id, step = { ArrowLeft: -1, ArrowRight: 1 }[event.key], lane = { ArrowUp: -1, ArrowDown: 1 }[event.key];
    if (!id || (!step && !lane)) return;
    event.preventDefault();
    if (step && event.shiftKey) return move(id, (from) => from + step);
    const lanes = state().stages, [stage, name] = id.split(":");
    const all = [...view.svg.querySelectorAll(`[data-id^="${stage}:"]`)].map((each) => each.dataset.id);
    if (step) focus(all[Math.max(0, Math.min(all.length - 1, all.indexOf(id) + step))]);
    else focus(`${Math.max(0, Math.min(lanes - 1, Number(stage) + lane))}:${name}`);
  });
  let held = null;
  view.svg.addEventListener("pointerdown", (event) => {
    const box = event.target.closest("[data-id]");
    if (!box) return;
    event.preventDefault();
    focus(box.dataset.id);
    view.svg.setPointerCapture(event.pointerId);
    held = { box, id: box.dataset.id, x: event.clientX };
  });
  view.svg.addEventListener("pointermove", (event) => held?.box.setAttribute("transform", `translate(${event.clientX - held.x} 0)`));
  const drop = (event) => {
    if (!held) return;
    const { box, id, x } = held, stage = id.split(":")[0], name = id.split(":")[1];
    held = null;
    box.removeAttribute("transform");
    if (event.type !== "pointerup" || Math.abs(event.clientX - x) < 3) return;
    const middle = (each) => { const { left, width } = each.getBoundingClientRect(); return left + width / 2; };
    const before = [...view.svg.querySelectorAll(`[data-id^="${stage}:"]`)].filter((each) => each !== box && middle(each) < event.clientX).map((each) => each.dataset.id.split(":")[1]);
    move(id, (from, row) => { // behind the last pass whose middle is left of the pointer
      const others = row.filter((each) => each !== name);
      return 1 + Math.max(-1, ...before.map((each) => others.indexOf(each)));
    });
  };
  view.svg.addEventListener("pointerup", drop);
  view.svg.addEventListener("pointercancel", drop);
}

function render({ model, el }) {
  const seconds = { values: [0.5, 1, 1.5, 2, 2.5, 3], show: (value) => `${value} s` };
  return kit.figure({ model, el }, {
    names: ["schedule", "stages", "micro_batches", "pieces", "forward", "backward", "weights", "own"],
    controls: [
      { name: "schedule", label: "schedule", options: SCHEDULES },
      { name: "stages", label: "stages p", values: kit.range(1, 8) },
      { name: "micro_batches", label: "micro-batches m", values: kit.range(1, 24) },
      { name: "pieces", label: "pieces v (interleaved)", values: kit.range(1, 4) },
      { name: "forward", label: "forward F", ...seconds },
      { name: "backward", label: "backward B", ...seconds },
      { name: "weights", label: "backward, weights W", ...seconds },
    ],
    hint: "Drag a pass along its lane, or choose one with the arrow keys and move it with Shift and an arrow key.",
    draw,
    interact,
  });
}

export default { render };
