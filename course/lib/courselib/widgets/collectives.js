// All-reduce over the size of the tensor: four algorithms in the alpha-beta model, and where the fastest one changes.
const KINDS = [
  { name: "ring", colour: "c0", dash: "" },
  { name: "tree", colour: "c1", dash: "7 4" },
  { name: "halving and doubling", colour: "c2", dash: "2 3" },
  { name: "hierarchical", colour: "c3", dash: "9 3 2 3" },
];
const LOW = 1e3, HIGH = 1e10; // bytes: the axis

const bytes = (size) => kit.si(size, "B");

// Of each algorithm: its steps one after the other, the seconds of an empty tensor (`fixed`) and of each byte
// (`each`), seconds and bytes that the busiest rank sends, of which `inside` stay on its node.
function numbers({ ranks: n, size, alpha, bandwidth, group, node_alpha, node_bandwidth }) {
  const beta = 1 / bandwidth, depth = Math.log2(n);
  const g = Math.min(group, n), nodes = n / g;
  const of = (steps, fixed, each, sent, inside = 0) => ({ steps, fixed, each, seconds: fixed + size * each, sent: sent * size, inside: inside * size });
  const share = (2 * (n - 1)) / n, inner = (2 * (g - 1)) / g, outer = (2 * (nodes - 1)) / nodes / g;
  const algorithms = {
    ring: of(2 * (n - 1), 2 * (n - 1) * alpha, share * beta, share),
    tree: of(2 * depth, 2 * depth * alpha, 2 * depth * beta, depth),
    "halving and doubling": of(2 * depth, 2 * depth * alpha, share * beta, share),
    hierarchical: of(2 * (g - 1) + 2 * (nodes - 1), 2 * (g - 1) * node_alpha + 2 * (nodes - 1) * alpha,
      inner / node_bandwidth + outer * beta, inner + outer, inner),
  };
  // The size from which on the second one is faster; null if it never is, or always.
  const crossing = (first, second) => {
    const a = algorithms[first], b = algorithms[second];
    const at = (b.fixed - a.fixed) / (a.each - b.each);
    return at > 0 && Number.isFinite(at) && b.each < a.each ? at : null;
  };
  return { algorithms, ring_beats_tree: crossing("tree", "ring"), nodes_beat_flat: crossing("halving and doubling", "hierarchical") };
}

function draw(state, view) {
  const { algorithms, ring_beats_tree, nodes_beat_flat } = numbers(state);
  const seconds = (name, size) => algorithms[name].fixed + algorithms[name].each * size;
  const every = KINDS.flatMap(({ name }) => [seconds(name, LOW), seconds(name, HIGH)]).filter((each) => each > 0);
  const key = kit.legend(view.width, KINDS);
  const height = key.height + 300;
  const low = Math.min(...every) / 1.5, high = Math.max(...every) * 1.5;
  const axes = kit.frame(view.width, height,
    { low: LOW, high: HIGH, log: true, unit: "B", label: "size S of the tensor" },
    { low, high, log: true, unit: "s", label: "seconds" }, key.height);
  const parts = [key.svg, axes.svg];
  const sizes = kit.range(0, 60).map((at) => LOW * (HIGH / LOW) ** (at / 60));
  for (const { name, colour, dash } of KINDS)
    parts.push(kit.line(sizes.map((size) => [axes.x(size), axes.y(seconds(name, size))]), colour, dash));
  const x = axes.x(state.size);
  parts.push(`<path d="M${x} ${axes.top}V${axes.bottom}" stroke="var(--faint)" stroke-dasharray="3 3"/>`);
  for (const [at, name, words, above] of [[ring_beats_tree, "ring", "ring beats tree from", -8], [nodes_beat_flat, "hierarchical", "hierarchical from", 16]]) {
    if (at === null || at < LOW || at > HIGH) continue;
    const [px, py] = [axes.x(at), axes.y(seconds(name, at))];
    parts.push(kit.dot(px, py, "ink", `${words} at ${bytes(at)}`, 4.5), kit.label(view.width, px, py + above, `${words} ${bytes(at)}`));
  }
  for (const { name, colour } of KINDS) parts.push(kit.dot(x, axes.y(seconds(name, state.size)), colour, `${name}: ${kit.si(seconds(name, state.size), "s")}`, 4));
  view.paint(parts.join(""), height);
  const fastest = Math.min(...KINDS.map(({ name }) => algorithms[name].seconds));
  view.table(
    ["all-reduce", "time", "steps", "the busiest rank sends", "inside its node"],
    KINDS.map(({ name }) => {
      const { steps, seconds: time, sent, inside } = algorithms[name];
      return [name, kit.si(time, "s"), steps, bytes(sent), name === "hierarchical" ? bytes(inside) : ""];
    }),
    KINDS.findIndex(({ name }) => algorithms[name].seconds === fastest),
  );
  const best = KINDS.filter(({ name }) => algorithms[name].seconds <= fastest * (1 + 1e-9)).map(({ name }) => name);
  view.say(`At ${bytes(state.size)} on ${state.ranks} ranks the fastest is: ${best.join(", ")}. ` +
    (ring_beats_tree === null ? "Here the ring is never slower than the tree." : `The ring is faster than the tree above ${bytes(ring_beats_tree)}.`));
}

function render({ model, el }) {
  return kit.figure({ model, el }, {
    names: ["ranks", "size", "alpha", "bandwidth", "group", "node_alpha", "node_bandwidth"],
    controls: [
      { name: "ranks", label: "ranks N", values: kit.powers(1, 12) },
      { name: "size", label: "size S", values: kit.rounds(LOW, HIGH), show: bytes },
      { name: "alpha", label: "latency α of a message", values: kit.rounds(1e-6, 1e-3), show: (value) => kit.si(value, "s") },
      { name: "bandwidth", label: "bandwidth 1/β", values: kit.rounds(1e8, 1e12, [1, 1.25, 2, 2.5, 5]), show: (value) => kit.si(value, "B/s") },
      { name: "group", label: "ranks in a node G", values: kit.powers(0, 6) },
    ],
    hint: `A message of S bytes takes α + S·β. The hierarchical one knows the nodes: inside a node α is ${kit.si(model.get("node_alpha"), "s")} and the bandwidth ${kit.si(model.get("node_bandwidth"), "B/s")}.`,
    draw,
  });
}

export default { render };
