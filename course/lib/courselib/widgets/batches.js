// Batch size against a goal for the time per token: tokens a second, dollars for a million, and where memory ends it.
const MODELS = { "8B": { parameters: 8e9, layers: 32 }, "70B": { parameters: 70e9, layers: 80 }, "405B": { parameters: 405e9, layers: 126 } };
const MACHINES = {
  "8xh100": { gpus: 8, sustained: 600e12, bandwidth: 3.35e12, memory: 80e9, dollars: 2.5 },
  nvl72: { gpus: 72, sustained: 1500e12, bandwidth: 8e12, memory: 186e9, dollars: 6 },
};
const KV = 2 * 8 * 128, ITEM = 2, SHARE = 0.9;

function parts({ model, machine }) {
  const of = MODELS[model], on = MACHINES[machine];
  const weights = of.parameters * ITEM, token = of.layers * KV * ITEM;
  return { of, on, weights, token, room: Math.max(0, (SHARE * on.gpus * on.memory - weights) / token) };
}

function point(state, batch) {
  const { of, on, weights, token, room } = parts(state);
  const computing = (2 * of.parameters * batch) / (on.gpus * on.sustained);
  const reading = (weights + batch * state.context * token) / (on.gpus * on.bandwidth);
  const tpot = Math.max(computing, reading), rate = batch / tpot;
  return { batch, tpot, rate, dollars: (on.gpus * on.dollars * 1e6) / 3600 / rate, fits: batch * state.context <= room };
}

function largest(state, goal) {
  let low = 0, high = Math.floor(parts(state).room / state.context);
  while (low < high) {
    const middle = Math.floor((low + high + 1) / 2);
    if (point(state, middle).tpot <= goal) low = middle;
    else high = middle - 1;
  }
  return low;
}

function numbers(state) {
  const best = largest(state, state.tpot);
  return { now: point(state, state.batch), best: best ? point(state, best) : null, fits: largest(state, Infinity) };
}

function draw(state, view) {
  const found = numbers(state), sizes = kit.powers(0, 12), points = sizes.map((batch) => point(state, batch));
  const across = { low: 1, high: 4096, log: true, unit: "", label: "sequences in a batch", ticks: kit.powers(0, 12, 2).filter((_, at) => at % 2 === 0) };
  const one = kit.frame(view.width, 230, across, { low: 1e-4, high: 2, log: true, unit: "s", label: "time per token" });
  const two = kit.frame(view.width, 460, across, { low: 10, high: 2e6, log: true, unit: "", label: "tokens a second" }, 230);
  const fitting = found.fits ? [...points.filter((each) => each.batch < found.fits), point(state, Math.min(found.fits, 4096))] : [];
  const along = (axes, name, some) => some.map((each) => [axes.x(each.batch), axes.y(each[name])]);
  const curve = (axes, name, colour) =>
    kit.line(along(axes, name, points), colour, "2 4", 1.5) + (fitting.length ? kit.line(along(axes, name, fitting), colour) : "");
  const level = one.y(state.tpot);
  view.paint(
    one.svg + two.svg + curve(one, "tpot", "c0") + curve(two, "rate", "c2") +
      kit.line([[one.left, level], [one.right, level]], "c1", "5 4") + kit.text(one.left + 6, level - 5, "goal", "start", "c1") +
      kit.dot(one.x(found.now.batch), one.y(found.now.tpot), "c0") + kit.dot(two.x(found.now.batch), two.y(found.now.rate), "c2"),
    460,
  );
  const row = (name, each) => [name, each.batch, kit.si(each.tpot, "s"), kit.si(each.rate), `$${each.dollars.toFixed(2)}`, each.fits ? "yes" : "no"];
  const rows = [row("chosen", found.now), row("batch one", point(state, 1))];
  if (found.best) rows.push(row("largest within the goal", found.best));
  view.table(["", "batch", "time per token", "tokens a second", "a million tokens", "cache fits"], rows, found.best ? 2 : -1);
  view.say(
    found.best
      ? `The largest batch within the goal is ${found.best.batch}. ${found.fits} sequences fit into the memory, so ${found.best.batch < found.fits ? "the goal" : "the memory"} ends the growth.`
      : found.fits ? "No batch keeps this goal: to read the weights alone takes longer." : "The weights and one sequence do not fit into this machine.",
  );
}

function render({ model, el }) {
  return kit.figure({ model, el }, {
    names: ["model", "machine", "context", "batch", "tpot"],
    controls: [
      { name: "model", label: "model, Llama 3", options: { "8B": "8 B", "70B": "70 B", "405B": "405 B" } },
      { name: "machine", label: "machine", options: { "8xh100": "8 × H100", nvl72: "NVL72" } },
      { name: "batch", label: "sequences in a batch", values: kit.powers(0, 12) },
      { name: "context", label: "tokens in each cache", values: kit.powers(9, 17) },
      { name: "tpot", label: "goal, time per token", values: kit.rounds(0.002, 0.2), show: (value) => kit.si(value, "s") },
    ],
    hint: "The longer of reading and computing, at 60 % of the peak. Dotted: the cache does not fit into 90 % of the memory. $2.50 for an hour of an H100 and $6 for a GPU of the NVL72 are assumptions.",
    draw,
  });
}

export default { render };
