// Two replicas and a partition that is dragged, or moved by keys: courselib.stores.Store in a network without chance.
const STEP = 0.1;

// What becomes of each request, and every message between the nodes, as {from, at, lost}.
function run({ requests, homes, way, patience }, { mode, since, until }) {
  const cut = (at) => since <= at && at < until;
  const data = { n1: null, n2: null }, messages = [], found = [], copies = [], only = homes[mode];
  const other = (node) => (node === "n1" ? "n2" : "n1");
  const send = (from, at) => {
    const lost = cut(at) || cut(at + way);
    messages.push({ from, at, lost });
    return !lost;
  };
  const settle = (at) => { // copies that have arrived by now
    while (copies.length && copies[0].at <= at) data[copies[0].to] = copies.shift().value;
  };
  const serve = (node, value, at) => {
    settle(at);
    if (value === null) return data[node];
    data[node] = value;
    if (!only.includes("read") && send(node, at)) copies.push({ to: other(node), value, at: at + way });
    return value;
  };
  for (const [node, value, asked] of requests) { // far enough apart that each is over before the next, or refused
    const kind = value === null ? "read" : "write", came = asked + way;
    let what = kind === "read" ? "read" : "written", got = null, at = came + way;
    if (node === "n1" || !only.includes(kind)) got = serve(node, value, came);
    else {
      const there = send(node, came);
      if (there) got = serve("n1", value, came + way);
      if (there && send("n1", came + way)) at = came + 3 * way;
      else [what, at, got] = ["refused", came + patience + way, there && kind === "write" ? "kept" : null];
    }
    if (what === "read") {
      const newest = Math.max(0, ...found.filter((each) => each.what === "written" && each.at < asked).map((each) => each.value));
      if ((got ?? 0) < newest) what = "stale";
    }
    found.push({ node, kind, value, asked, what, got, at });
  }
  settle(Infinity);
  return { found, messages, data };
}

const LOOKS = { read: ["f2", "f2i"], written: ["f0", "f0i"], stale: ["f1", "f1i"], refused: ["f5", "f5i"] };

function picture(fixed, state, { found, messages }, width) {
  const left = 30, right = width - 12, lanes = { n1: 64, n2: 164 }, low = 222;
  const x = (at) => left + ((right - left) * at) / fixed.end, parts = [];
  const key = kit.legend(width, [
    { name: "written", colour: "f0", box: true }, { name: "read", colour: "f2", box: true },
    { name: "read, stale", colour: "f1", box: true }, { name: "refused", colour: "f5", box: true },
  ]);
  parts.push(key.svg, `<g transform="translate(0 ${key.height})">`);
  for (let at = 0; at <= fixed.end; at++) parts.push(kit.text(x(at), low + 18, `${at} s`, at ? (at === fixed.end ? "end" : "middle") : "start"));
  if (state.since < state.until)
    parts.push(`<rect class="cut" data-handle="both" x="${x(state.since)}" y="12" width="${x(state.until) - x(state.since)}" height="${low - 12}" fill="var(--c4)" fill-opacity="0.16"/>`);
  for (const [name, y] of Object.entries(lanes)) {
    parts.push(`<path d="M${left} ${y}H${right}" stroke="var(--faint)" pointer-events="none"/>`, kit.text(2, y + 4, name, "start", "ink"));
  }
  for (const { from, at, lost } of messages) {
    const [y1, y2] = from === "n1" ? [lanes.n1 + 13, lanes.n2 - 13] : [lanes.n2 - 13, lanes.n1 + 13], ends = lost ? (y1 + y2) / 2 : y2;
    parts.push(`<path d="M${x(at).toFixed(1)} ${y1}L${x(at + fixed.way).toFixed(1)} ${ends}" stroke="var(--${lost ? "f5" : "faint"})" stroke-width="1.4" pointer-events="none"/>`);
    if (lost) parts.push(`<path d="M${x(at) - 4} ${ends - 4}l8 8m0 -8l-8 8" stroke="var(--f5)" stroke-width="2" pointer-events="none"/>`);
  }
  const wide = Math.min(30, (right - left) / 15);
  for (const { node, kind, value, asked, what, got } of found) {
    const [fill, ink] = LOOKS[what], y = lanes[node], words = kind === "write" ? `w${value}` : what === "refused" ? "r?" : `r${got ?? "-"}`;
    const hover = `${node}, ${asked} s: ${kind}${kind === "write" ? ` ${value}` : ""}: ${what}${got === "kept" ? ", but n1 has it" : ""}`;
    parts.push(`<g><rect x="${(x(asked) - 3).toFixed(1)}" y="${y - 12}" width="${wide}" height="24" rx="4" fill="var(--${fill})"><title>${kit.escape(hover)}</title></rect>`);
    parts.push(kit.text(x(asked) - 3 + wide / 2, y + 4, words, "middle", ink, 'font-weight="600"'), "</g>");
    if (what === "stale" || what === "refused")
      parts.push(kit.text(x(asked) - 3 + wide / 2, node === "n1" ? y - 17 : y + 26, what === "stale" ? "old" : got === "kept" ? "no?" : "no", "middle", "ink", 'pointer-events="none"'));
  }
  for (const [name, label] of [["since", "the partition begins"], ["until", "it heals"]]) {
    const at = x(state[name]);
    parts.push(`<g data-handle="${name}" tabindex="0" role="slider" aria-label="${label}" aria-valuemin="0" aria-valuemax="${fixed.end}" aria-valuenow="${state[name]}" aria-valuetext="${state[name]} s" style="cursor:ew-resize;touch-action:none">`
      + `<rect x="${at - 9}" y="6" width="18" height="${low}" fill="transparent"/><path d="M${at} 12V${low}" stroke="var(--ink)" stroke-width="2"/>`
      + `<circle cx="${at}" cy="${name === "since" ? 12 : low}" r="6" fill="var(--ink)"/></g>`);
  }
  return [`${parts.join("")}</g>`, key.height + low + 26, x];
}

function render({ model, el }) {
  const fixed = Object.fromEntries(["requests", "homes", "way", "patience", "end"].map((name) => [name, model.get(name)]));
  const snap = (value) => Number((Math.round(Math.min(fixed.end, Math.max(0, value)) / STEP) * STEP).toFixed(1));

  // The state with a handle moved by so many seconds; one end never passes the other.
  function moved(state, handle, by) {
    if (handle === "both") {
      const room = Math.min(Math.max(by, -state.since), fixed.end - state.until);
      return { since: snap(state.since + room), until: snap(state.until + room) };
    }
    const value = snap(state[handle] + by);
    return { [handle]: handle === "since" ? Math.min(value, state.until) : Math.max(value, state.since) };
  }

  return kit.figure({ model, el }, {
    names: ["mode", "since", "until"],
    controls: [{
      name: "mode", label: "who may answer",
      options: { CP: "CP: only n1", AP: "AP: every node", followers: "n1 writes, all read" },
    }],
    interact(view, now) {
      const STEPS = { ArrowLeft: -STEP, ArrowRight: STEP, ArrowDown: -STEP, ArrowUp: STEP, PageDown: -5 * STEP, PageUp: 5 * STEP, Home: -Infinity, End: Infinity };
      let held = null;
      const seconds = (event) => ((event.clientX - view.svg.getBoundingClientRect().left) / (view.width - 42)) * fixed.end;
      view.svg.addEventListener("keydown", (event) => {
        const by = STEPS[event.key], handle = event.target.closest("[data-handle]")?.dataset.handle;
        if (by === undefined || !handle) return;
        event.preventDefault();
        view.set(moved(now(), handle, by));
      });
      view.svg.addEventListener("pointerdown", (event) => {
        const handle = event.target.closest("[data-handle]")?.dataset.handle;
        if (!handle) return;
        event.preventDefault();
        view.svg.setPointerCapture(event.pointerId);
        held = { handle, from: seconds(event), state: now() };
        view.svg.querySelector(`[data-handle=${handle}][tabindex]`)?.focus();
      });
      view.svg.addEventListener("pointermove", (event) => held && view.set(moved(held.state, held.handle, seconds(event) - held.from)));
      for (const end of ["pointerup", "pointercancel"]) view.svg.addEventListener(end, () => { held = null; });
    },
    draw(state, view) {
      const done = run(fixed, state), focused = view.svg.querySelector("[data-handle]:focus")?.dataset.handle;
      const [svg, height] = picture(fixed, state, done, view.width);
      view.paint(svg, height);
      if (focused) view.svg.querySelector(`[data-handle=${focused}][tabindex]`).focus({ preventScroll: true });
      const during = (each) => state.since <= each.asked && each.asked < state.until;
      const count = (name, among) => [name, ...["refused", "stale"].map((what) => String(done.found.filter((each) => each.what === what && among(each)).length))];
      view.table(["requests made", "refused", "read, stale"], [count("in the partition", during), count("before and after it", (each) => !during(each))]);
      const cut = state.since < state.until ? `Cut from ${state.since} s to ${state.until} s.` : "No partition.";
      const has = (node) => done.data[node] ?? "nothing";
      const kept = done.found.filter((each) => each.got === "kept").map((each) => ` n2 refused write ${each.value}, and n1 has it.`).join("");
      view.say(`${cut}${kept} At the end n1 holds ${has("n1")} and n2 holds ${state.mode === "CP" ? "no copy" : has("n2")}.`);
    },
  });
}

export default { render };
