// Transactions stepped by the reader on a store of versions: courselib.interleaved, without appends and wounds.
const SNAPSHOTS = ["snapshot", "ssi"];

class Refused { constructor(why) { this.why = why; } }
class Waits { constructor(on) { this.on = on; } }

function store(level, initial) {
  const first = { number: 0, start: 0, end: 0, state: "committed", read: [] };
  const versions = {}, locks = {}, all = [];
  let clock = 0;
  for (const [key, value] of Object.entries(initial)) versions[key] = [{ value, by: first, key }];
  const alive = (tx) => tx.state === "active" || tx.state === "waiting";
  const prefixes = (key) => all.filter((tx) => alive(tx) && [...tx.ranges].some((each) => key.startsWith(each)));
  const edge = (reader, writer) => { reader.out.add(writer); writer.into.add(reader); };
  const together = (one, other) => (one.end === null || one.end > other.start) && (other.end === null || other.end > one.start);

  function visible(tx, key) {
    for (const each of [...(versions[key] ?? [])].reverse()) {
      if (each.by === tx || level === "none" || level === "read uncommitted") return each;
      if (each.by.end !== null && (!SNAPSHOTS.includes(level) || each.by.end <= tx.start)) return each;
    }
    return null;
  }
  function newer(tx, key, seen) {
    if (level !== "ssi") return;
    const of = versions[key] ?? [];
    for (const each of of.slice(seen ? of.indexOf(seen) + 1 : 0)) if (each.by !== tx) edge(tx, each.by);
  }
  function lock(tx, key, mode) {
    const held = (locks[key] ??= new Map());
    const rivals = new Set([...held].filter(([each, has]) => each !== tx && (mode === "X" || has === "X")).map(([each]) => each));
    if (mode === "X") for (const each of prefixes(key)) if (each !== tx) rivals.add(each);
    if (rivals.size) throw new Waits(rivals);
    held.set(tx, mode === "X" || held.get(tx) === "X" ? "X" : "S");
  }
  function read(tx, key) {
    if (level === "2pl") lock(tx, key, "S");
    const seen = visible(tx, key);
    tx.read.push([key, seen]);
    newer(tx, key, seen);
    return (tx.known[key] = seen ? seen.value : null);
  }
  function scan(tx, prefix) {
    if (level === "2pl") {
      const rivals = new Set();
      for (const [key, held] of Object.entries(locks)) if (key.startsWith(prefix)) for (const [each, mode] of held) if (mode === "X" && each !== tx) rivals.add(each);
      if (rivals.size) throw new Waits(rivals);
      tx.ranges.add(prefix);
    }
    tx.scanned.add(prefix);
    const seen = Object.keys(versions).filter((key) => key.startsWith(prefix)).map((key) => [key, visible(tx, key)]);
    const found = seen.filter(([, each]) => each).map(([key]) => key);
    tx.read.push([`${prefix}*`, { value: found, by: tx, key: prefix }]);
    for (const [key, each] of seen) {
      if (each) tx.read.push([key, each]);
      newer(tx, key, each);
    }
    return found.length;
  }
  function write(tx, key, value) {
    const of = (versions[key] ??= []);
    if (level !== "none") lock(tx, key, "X");
    if (SNAPSHOTS.includes(level) && of.some((each) => (each.by.end ?? 0) > tx.start)) throw new Refused(`${key} was changed after the snapshot`);
    const next = "+-".includes(value[0]) ? (tx.known[key] ?? 0) + Number(value) : Number(value);
    if (level === "ssi")
      for (const other of all)
        if (other !== tx && other.state !== "refused" && together(other, tx) && (other.read.some(([each]) => each === key) || [...other.scanned].some((each) => key.startsWith(each)))) edge(other, tx);
    of.push({ value: next, by: tx, key });
    tx.wrote.add(key);
    return (tx.known[key] = next);
  }
  function dangerous(tx) {
    const ends = [...tx.out].filter((each) => each.end !== null);
    for (const one of tx.into) {
      if (["refused", "aborted"].includes(one.state)) continue;
      const latest = one.end !== null && !one.wrote.size ? one.start : clock;
      for (const other of ends) if (other.end <= latest) throw new Refused(`T${tx.number} stands between T${one.number} and T${other.number}, which has committed`);
    }
    for (const pivot of ends) {
      const latest = tx.wrote.size ? pivot.end : Math.min(pivot.end, tx.start);
      if ([...pivot.out].some((each) => each.end !== null && each.end <= latest)) throw new Refused(`T${pivot.number}, which has committed, would stand between T${tx.number} and another one`);
    }
  }
  function end(tx, state) {
    tx.state = state;
    tx.waits = new Set();
    if (state !== "committed") for (const key of tx.wrote) versions[key] = versions[key].filter((each) => each.by !== tx);
    for (const held of Object.values(locks)) held.delete(tx);
    tx.ranges = new Set();
    return null;
  }
  function act(tx, what) {
    const [kind, key, value] = what.split(" ");
    if (kind === "abort") return end(tx, "aborted");
    if (kind === "scan") return scan(tx, key);
    if (kind === "r") return read(tx, key);
    if (kind === "w") return write(tx, key, value);
    if (level === "ssi") dangerous(tx);
    tx.end = ++clock;
    return end(tx, "committed");
  }
  return { act, end, versions, all, alive, now: () => clock };
}

function cycle(tx) { // whether it waits for itself
  const found = new Set();
  let next = new Set(tx.waits);
  while (next.size) {
    for (const each of next) found.add(each);
    next = new Set([...next].flatMap((each) => (each.state === "waiting" ? [...each.waits] : [])).filter((each) => !found.has(each)));
  }
  return found.has(tx);
}

function play({ texts, initial }, order, level) {
  const on = store(level, initial), steps = [], seen = [], last = [];
  const txs = texts.map((_, at) => ({ number: at + 1, start: 0, end: null, state: "active", read: [], known: {}, wrote: new Set(), scanned: new Set(), ranges: new Set(), waits: new Set(), into: new Set(), out: new Set() }));
  const todo = texts.map((text) => text.split(";").map((each) => each.trim()));
  function step(tx) {
    const what = todo[tx.number - 1][0], reads = tx.read.length;
    if (!on.all.includes(tx)) { tx.start = on.now(); on.all.push(tx); }
    const refuse = (why) => { on.end(tx, "refused"); steps.push({ who: tx.number, what, result: "refused", said: why }); };
    let result;
    try {
      result = on.act(tx, what);
    } catch (error) {
      if (error instanceof Refused) return refuse(error.why);
      if (!(error instanceof Waits)) throw error;
      const again = tx.state === "waiting";
      tx.state = "waiting";
      tx.waits = error.on;
      if (cycle(tx)) refuse("a deadlock");
      else if (!again) steps.push({ who: tx.number, what, result: "waits", said: `for ${[...error.on].map((each) => each.number).sort().map((each) => `T${each}`).join(" and ")}` });
      return;
    }
    todo[tx.number - 1].shift();
    if (tx.state === "waiting") { tx.state = "active"; tx.waits = new Set(); }
    for (const [key, version] of tx.read.slice(reads)) seen.push([tx, key, version]);
    for (const key of tx.wrote) for (const each of on.versions[key]) if (each.by === tx) last.push(each);
    steps.push({ who: tx.number, what, result, said: "" });
  }
  for (const turn of order) {
    const tx = txs[Number(turn) - 1];
    if (!tx || tx.state !== "active" || !todo[tx.number - 1].length) continue;
    step(tx);
    for (let woken = true; woken; ) {
      const before = txs.map((each) => each.state).join();
      for (const each of txs) if (each.state === "waiting") step(each);
      woken = before !== txs.map((each) => each.state).join();
    }
  }
  const edges = drawn(on.versions, seen), over = txs.every((tx) => !on.alive(tx)), final = {};
  for (const [key, of] of Object.entries(on.versions)) { const done = committed(of); if (done.length) final[key] = done.at(-1).value; }
  return { steps, states: txs.map((tx) => tx.state), final, edges, wrong: over ? wrong(seen, last, edges) : "" };
}

function committed(of) {
  const done = of.filter((each) => each.by.end !== null);
  return done.filter((each, at) => !done.slice(at + 1).some((later) => later.by === each.by));
}

function drawn(versions, seen) {
  const found = new Map(), add = (...edge) => edge[0] && edge[1] && edge[0] !== edge[1] && found.set(edge.join(), edge);
  for (const [key, of] of Object.entries(versions)) {
    const order = committed(of), writers = order.map((each) => each.by);
    order.slice(1).forEach((after, at) => add(order[at].by.number, after.by.number, "ww", key));
    for (const [reader, read, version] of seen) {
      if (reader.end === null) continue;
      if (read.endsWith("*")) {
        if (order.length && key.startsWith(read.slice(0, -1)) && !version.value.includes(key)) add(reader.number, order[0].by.number, "rw", key);
        continue;
      }
      if (read !== key) continue;
      if (version && version.by.end !== null) add(version.by.number, reader.number, "wr", key);
      const at = !version ? -1 : writers.includes(version.by) ? writers.indexOf(version.by) : order.length;
      if (at + 1 < order.length && (!version || version.by !== reader)) add(reader.number, order[at + 1].by.number, "rw", key);
    }
  }
  return [...found.values()].sort((a, b) => (a.join() < b.join() ? -1 : 1));
}

function paths(at, to, edges, been) {
  if (at === to) return [[]];
  return edges.filter(([one, other]) => one === at && !been.includes(other)).flatMap(([, other, kind]) => paths(other, to, edges, [...been, at]).map((rest) => [kind, ...rest]));
}

function wrong(seen, last, edges) {
  for (const [reader, , version] of seen) {
    if (reader.end === null || !version || version.by === reader) continue;
    if (version.by.end === null) return "G1a";
    const own = last.filter((each) => each.by === version.by && each.key === version.key);
    if (own.length && own.at(-1) !== version) return "G1b";
  }
  const best = edges.flatMap(([one, other, kind]) => paths(other, one, edges, []).map((path) => [kind, ...path]))
    .map((kinds) => [Math.min(2, kinds.filter((each) => each === "rw").length), kinds.includes("wr")])
    .sort((a, b) => a[0] - b[0] || a[1] - b[1])[0];
  return best ? [best[1] ? "G1c" : "G0", "G-single", "G2-item"][best[0]] : "";
}

const WORDS = { G0: "dirty write", G1a: "aborted read", G1b: "intermediate read", G1c: "circular flow", "G-single": "one transaction missed another one's write", "G2-item": "write skew" };

function picture(played, count, width) {
  const left = 34, most = Math.max(8, played.steps.length), step = (width - left - 6) / most, gap = 58, parts = [];
  for (let lane = 0; lane < count; lane++) {
    const y = 22 + gap * lane, state = played.states[lane];
    parts.push(`<path d="M${left} ${y + 18}H${width - 6}" stroke="var(--faint)" stroke-opacity="0.5"/>`, kit.text(2, y + 15, `T${lane + 1}`, "start", "ink", 'font-weight="600"'));
    if (state !== "active") parts.push(kit.text(2, y + 30, { committed: "done", waiting: "waits", refused: "out", aborted: "undone" }[state], "start", "faint", 'font-size="9"'));
  }
  played.steps.forEach(({ who, what, result, said }, at) => {
    const x = left + step * at, y = 22 + gap * (who - 1), kind = ["waits", "refused"].includes(result) ? result : "done";
    const fill = { done: "f0", waits: "f2", refused: "f5" }[kind];
    const below = kind === "done" ? (/^(r|scan)/.test(what) ? `= ${result ?? "-"}` : /^w/.test(what) ? `→ ${result}` : "") : kind;
    parts.push(`<g><rect x="${(x + 1).toFixed(1)}" y="${y}" width="${(step - 3).toFixed(1)}" height="36" rx="4" fill="var(--${fill})"><title>${kit.escape(`T${who}: ${what}${said ? `: ${said}` : ""}`)}</title></rect>`);
    const size = `font-size="${step < 50 ? 8.5 : 11}"`;
    parts.push(kit.text(x + step / 2, y + 15, what, "middle", `${fill}i`, size), kit.text(x + step / 2, y + 29, below, "middle", `${fill}i`, size), "</g>");
  });
  return [parts.join(""), 22 + gap * count];
}

function render({ model, el }) {
  const scenarios = model.get("scenarios"), levels = model.get("levels");
  model.on("change:scenario", () => { model.set("order", scenarios[model.get("scenario")].order); model.save_changes(); });
  const turn = (who) => (set, now) => {
    const state = now(), told = scenarios[state.scenario], next = state.order + who;
    if (play(told, next, state.level).steps.length > play(told, state.order, state.level).steps.length) set({ order: next });
  };
  return kit.figure({ model, el }, {
    names: ["scenario", "level", "order"],
    controls: [
      { name: "scenario", label: "what they do", options: Object.fromEntries(Object.keys(scenarios).map((each) => [each, each])) },
      { name: "level", label: "isolation level", options: levels },
    ],
    buttons: {
      "T1 steps": turn("1"), "T2 steps": turn("2"), "T3 steps": turn("3"),
      "step back": (set, now) => set({ order: now().order.slice(0, -1) }),
      "start over": (set) => set({ order: "" }),
      "the order that hurts": (set, now) => set({ order: scenarios[now().scenario].order }),
    },
    hint: "Step the transactions in any order. A transaction that waits goes on by itself as soon as it may. The table plays the same order to its end at every level.",
    draw(state, view) {
      const told = scenarios[state.scenario], now = play(told, state.order, state.level);
      const [svg, height] = picture(now, told.texts.length, view.width);
      view.paint(svg, height);
      const rows = Object.entries(levels).map(([level, words]) => {
        const end = play(told, state.order + "123".repeat(12), level);
        const who = (result) => [...new Set(end.steps.filter((each) => each.result === result).map((each) => `T${each.who}`))].join(", ") || "-";
        return [words, who("waits"), who("refused"), Object.entries(end.final).map(([key, value]) => `${key} = ${value}`).join(", "), end.wrong ? `${end.wrong}: ${WORDS[end.wrong]}` : "-"];
      });
      view.table(["level, same order to the end", "waits", "refused", "at the end", "anomaly"], rows, Object.keys(levels).indexOf(state.level));
      const last = now.steps.at(-1), reads = now.edges.map(([one, other, kind, key]) => `T${one} ${kind} T${other} (${key})`).join(", ");
      view.say(`${told.about} ${last?.said ? `T${last.who} ${last.result}: ${last.said}. ` : ""}${now.wrong ? `Anomaly ${now.wrong}: ${reads}.` : reads ? `Dependencies: ${reads}.` : ""}`);
    },
  });
}

export default { render };
