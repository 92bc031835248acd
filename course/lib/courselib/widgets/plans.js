// The parallel plan of a transformer: memory and step time of one plan, among all that are legal. The formulas are
// those of the exercise parallel_plan, where their sources are.
const PARTS = [
  { name: "computing", colour: "f0" },
  { name: "tensor", colour: "f1" },
  { name: "pipeline", colour: "f5" },
  { name: "ZeRO", colour: "f2" },
  { name: "bubble", colour: "f4" },
  { name: "gradients", colour: "f3" },
];
const KEPT = [{ name: "states", colour: "f0" }, { name: "activations", colour: "f1" }];

const divisors = (number) => kit.range(1, number).filter((each) => number % each === 0);
const gcd = (a, b) => (b ? gcd(b, a % b) : a);

// Bytes of states and activations on a device of the first stage, and the seconds of a step by part.
function judged(spec, cluster, { dp, tp, pp, micro_batches: m, zero_stage: stage, recompute }) {
  const { layers, hidden, heads, sequence, vocabulary, batch } = spec, again = recompute ? 1 : 0;
  const held = ((12 * hidden ** 2 * layers) / pp + vocabulary * hidden) / tp;
  const states = held * ((stage >= 3 ? 2 / dp : 2) + (stage >= 2 ? 2 / dp : 2) + (stage >= 1 ? 12 / dp : 12));
  const tokens = (sequence * batch) / (dp * m), layer = ((tokens * hidden) / tp) * 34;
  const activations = ((Math.min(pp, m) * layers) / pp) * (recompute ? (2 * tokens * hidden) / tp : layer) + again * layer;

  const link = (span, nics) => {
    const inside = cluster.devices_per_node % span === 0;
    return inside ? [cluster.node_latency, cluster.node_bandwidth] : [cluster.network_latency, Math.min(cluster.node_bandwidth, nics * cluster.network_bandwidth)];
  };
  const ring = (size, ranks, [latency, bandwidth]) => (ranks - 1) * (latency + size / ranks / bandwidth);
  const forward = tokens * (24 * hidden ** 2 + 4 * sequence * hidden), scores = tokens * 2 * sequence * hidden;
  const compute = ((layers / pp) * ((3 + again) * forward + scores) + 6 * tokens * hidden * vocabulary) / (tp * cluster.flops);
  const whole = 2 * tokens * hidden;
  const tensor = ((10 + 4 * again) * layers / pp) * ring(whole, tp, link(tp, gcd(tp, cluster.devices_per_node)));
  const [latency, bandwidth] = link(tp * pp, 1);
  const pipeline = pp > 1 ? 2 * (latency + whole / tp / bandwidth) : 0;
  const nics = Math.max(1, Math.floor(cluster.devices_per_node / (tp * pp)));
  const one_way = ring(2 * held, dp, link(tp * pp * dp, nics));
  const zero = [0, 0, 1, 3][stage] * one_way;
  const bubble = (pp - 1) * (compute + tensor + pipeline + zero);
  const parts = [m * compute, m * tensor, m * pipeline, m * zero, bubble, [2, 2, 1, 0][stage] * one_way];
  return { states, activations, memory: states + activations, parts, seconds: parts.reduce((sum, each) => sum + each) };
}

// Which rule a plan breaks, in a sentence; empty if it is legal.
function illegal(spec, devices, { tp, pp, micro_batches }) {
  const dp = devices / (tp * pp);
  if (!Number.isInteger(dp)) return `tp × pp = ${tp * pp} does not divide the ${devices} devices.`;
  if (spec.batch % dp) return `dp = ${dp} does not divide the batch of ${spec.batch} sequences.`;
  const rows = spec.batch / dp;
  return rows % micro_batches ? `A replica's ${rows} sequences cannot be split into ${micro_batches} equal micro-batches of whole sequences.` : "";
}

let kept = { key: "", plans: [] };

function every(spec, cluster) {
  const key = JSON.stringify([spec, cluster]), plans = [];
  if (kept.key === key) return kept.plans;
  for (const tp of divisors(spec.heads))
    for (const pp of divisors(spec.layers)) {
      const dp = cluster.devices / (tp * pp);
      if (!Number.isInteger(dp) || spec.batch % dp) continue;
      for (const micro_batches of divisors(spec.batch / dp))
        for (const zero_stage of [0, 1, 2, 3])
          for (const recompute of [false, true]) {
            const plan = { dp, tp, pp, micro_batches, zero_stage, recompute };
            plans.push({ ...plan, ...judged(spec, cluster, plan) });
          }
    }
  kept = { key, plans };
  return plans;
}

function numbers(state) {
  const { spec, links, devices, memory } = state, cluster = { ...links, devices, memory };
  const plans = every(spec, cluster), fitting = plans.filter((each) => each.memory <= memory);
  const best = fitting.reduce((least, each) => (least && least.seconds <= each.seconds ? least : each), null);
  const broken = illegal(spec, devices, state), dp = devices / (state.tp * state.pp);
  return { dp, broken, mine: broken ? null : judged(spec, cluster, { ...state, dp }), best, legal: plans.length, fitting: fitting.length, plans };
}

const said = ({ dp, tp, pp, micro_batches, zero_stage, recompute }) =>
  `dp ${dp}, tp ${tp}, pp ${pp}, ${micro_batches} micro-batches, ZeRO ${zero_stage}, ${recompute ? "recomputing" : "not recomputing"}`;

function draw(state, view) {
  const { dp, broken, mine, best, legal, fitting, plans } = numbers(state);
  const least = best?.seconds ?? Math.min(...plans.map((each) => each.seconds));
  const shown = plans.filter((each) => each.seconds < 6 * least && each.memory < 10 * state.memory);
  const height = 270, key = kit.legend(view.width, PARTS.map((each) => ({ ...each, box: true })));
  const axes = kit.frame(view.width, height,
    { low: Math.min(state.memory / 2, ...shown.map((each) => each.memory)) / 1.2, high: 10 * state.memory, log: true, unit: "B", label: "memory that a plan needs on a device" },
    { low: Math.min(...shown.map((each) => each.seconds)) / 1.1, high: 6 * least, log: true, unit: "s", label: "seconds of a step" });
  const cloud = (which, colour) => `<path d="${shown.filter(which).map((each) => `M${axes.x(each.memory).toFixed(1)} ${axes.y(each.seconds).toFixed(1)}h0`).join("")}" fill="none" stroke="var(--${colour})" stroke-width="4" stroke-linecap="round" opacity="0.45"/>`;
  const edge = axes.x(state.memory);
  const out = [axes.svg, cloud((each) => each.memory > state.memory, "faint"), cloud((each) => each.memory <= state.memory, "c0"),
    `<path d="M${edge} ${axes.top}V${axes.bottom}" stroke="var(--c1)" stroke-width="2" stroke-dasharray="4 3"/>`,
    kit.label(view.width, edge, axes.top + 12, `${kit.si(state.memory, "B")} on a device`)];
  if (best) out.push(kit.dot(axes.x(best.memory), axes.y(best.seconds), "c2", said(best), 6), kit.label(view.width, axes.x(best.memory), axes.y(best.seconds) - 8, "best"));
  const inside = mine && mine.seconds < 6 * least && mine.memory < 10 * state.memory;
  if (inside) out.push(kit.dot(axes.x(mine.memory), axes.y(mine.seconds), "c1", "yours", 6), kit.label(view.width, axes.x(mine.memory), axes.y(mine.seconds) - 8, "yours"));
  const rows = [["yours", mine], ["best", best]].filter(([, plan]) => plan);
  const most = Math.max(1e-9, ...rows.map(([, plan]) => plan.seconds)), full = Math.max(state.memory, ...rows.map(([, plan]) => plan.memory));
  const second = kit.legend(view.width, KEPT.map((each) => ({ ...each, box: true })));
  const under = key.height + 8 + 24 * rows.length + 8;
  out.push(`<g transform="translate(0 ${height + 6})">${key.svg}${kit.stacked(view.width, key.height + 4, rows.map(([name, plan]) => ({ name, values: plan.parts, words: kit.si(plan.seconds, "s") })), PARTS, most, { left: 44, right: 60 })}` +
    `<g transform="translate(0 ${under})">${second.svg}${kit.stacked(view.width, second.height + 4, rows.map(([name, plan]) => ({ name, values: [plan.states, plan.activations], words: kit.si(plan.memory, "B") })), KEPT, full, { left: 44, right: 60, limit: state.memory })}</g></g>`);
  view.paint(out.join(""), height + under + second.height + 24 * rows.length + 16);
  const found = best ? `The best of ${legal} legal plans, of which ${fitting} fit: ${kit.si(best.seconds, "s")} with ${said(best)}.` : `None of the ${legal} legal plans fits.`;
  if (broken) return view.say(`Not legal: ${broken} ${found}`);
  const more = best && mine.memory <= state.memory ? `${(100 * (mine.seconds / best.seconds - 1)).toFixed(0)} % more than the best` : "too much memory";
  view.say(`Yours, dp ${dp}: ${kit.si(mine.seconds, "s")} and ${kit.si(mine.memory, "B")}, ${more}. ${found}`);
}

function render({ model, el }) {
  const spec = model.get("spec");
  return kit.figure({ model, el }, {
    names: ["spec", "links", "devices", "memory", "tp", "pp", "micro_batches", "zero_stage", "recompute"],
    controls: [
      { name: "tp", label: "tensor parallel t", values: divisors(spec.heads) },
      { name: "pp", label: "pipeline stages p", values: divisors(spec.layers) },
      { name: "micro_batches", label: "micro-batches m", values: divisors(spec.batch) },
      { name: "zero_stage", label: "ZeRO stage", options: { 0: "0: DDP", 1: "1: optimizer state", 2: "2: and gradients", 3: "3: and parameters" } },
      { name: "devices", label: "devices", values: kit.powers(4, 13) },
      { name: "memory", label: "memory of a device", values: [40e9, 80e9, 141e9, 186e9], show: (value) => kit.si(value, "B") },
      { name: "recompute", label: "recompute each layer" },
    ],
    buttons: {
      "Take the best plan": (set, state) => {
        const { best } = numbers(state());
        if (best) set({ tp: best.tp, pp: best.pp, micro_batches: best.micro_batches, zero_stage: best.zero_stage, recompute: best.recompute });
      },
    },
    hint: `The cost model of the exercise parallel_plan: nothing overlaps, and a device computes at ${kit.si(model.get("links").flops, "FLOP/s")}.`,
    draw,
  });
}

export default { render };
