// Latency against load: a server that takes what waits as one batch, as courselib.batching.serve has it.
const STATE = ["rate", "call", "row", "batch", "wait"];
const RATES = [5, 7, ...kit.rounds(10, 5000, [1, 1.4, 2, 2.5, 3, 3.5, 4, 5, 6, 7, 8.5])];

// The same numbers as Python's: `gaps` are its random times between requests, at one a second.
function serve(gaps, { rate, call, row, batch, wait }) {
  const came = [], latencies = [];
  let now = 0, free = 0, first = 0, calls = 0, busy = 0;
  for (const gap of gaps) came.push((now += gap / rate));
  while (first < came.length) {
    const last = Math.min(first + batch, came.length) - 1;
    const full = last - first + 1 === batch ? came[last] : Infinity;
    const start = Math.max(free, Math.min(full, came[first] + wait));
    let size = 0;
    for (let at = first; at <= last; at++) size += came[at] <= start;
    const seconds = call + row * size;
    free = start + seconds;
    for (let at = first; at < first + size; at++) latencies.push(free - came[at]);
    first += size;
    calls += 1;
    busy += seconds;
  }
  const sorted = Float64Array.from(latencies).sort(), all = sorted.length;
  return {
    mean: latencies.reduce((sum, each) => sum + each, 0) / all,
    p99: sorted[Math.min(all - 1, Math.ceil(0.99 * all) - 1)],
    throughput: all / (free - came[0]),
    size: all / calls,
    busy: busy / (free - came[0]),
  };
}

const most = ({ call, row, batch }) => batch / (call + row * batch); // requests a second with full batches

function curves(gaps, state) {
  const key = JSON.stringify([state.call, state.row, state.batch, state.wait]);
  if (curves.key !== key) {
    const runs = (settings) => RATES.filter((rate) => rate < most(settings)).map((rate) => [rate, serve(gaps, { ...settings, rate })]);
    curves.key = key;
    curves.kept = { batches: runs(state), alone: runs({ ...state, batch: 1, wait: 0 }) };
  }
  return curves.kept;
}

function render({ model, el }) {
  const gaps = model.get("gaps");
  const ms = (value) => kit.si(value, "s");
  return kit.figure({ model, el }, {
    names: STATE,
    controls: [
      { name: "rate", label: "requests come", values: RATES, show: (value) => `${kit.si(value)} a second` },
      { name: "call", label: "one call of the model", values: kit.rounds(0.001, 0.1), show: ms },
      { name: "row", label: "and for each request in it", values: [0, ...kit.rounds(0.0001, 0.02)], show: ms },
      { name: "batch", label: "batch size limit", values: kit.powers(0, 7) },
      { name: "wait", label: "waiting limit", values: [0, ...kit.rounds(0.001, 0.1)], show: ms },
    ],
    draw(state, view) {
      const { batches, alone } = curves(gaps, state), here = serve(gaps, state), single = serve(gaps, { ...state, batch: 1, wait: 0 });
      const limit = most(state), reached = state.rate < limit;
      const high = Math.min(RATES.at(-1), Math.max(1.6 * limit, 1.2 * state.rate));
      const key = kit.legend(view.width, [
        { name: "99 % are answered within", colour: "c1" },
        { name: "mean", colour: "c0", dash: "7 4" },
        { name: "99 %, one request at a time", colour: "c4", dash: "2 3" },
      ]);
      const top = key.height;
      const axes = kit.frame(view.width, top + 300, { low: RATES[0], high, log: true, label: "requests a second" },
        { low: state.call / 1.5, high: 200 * state.call, log: true, unit: "s", label: "latency" }, top);
      const inside = (rate, value) => [axes.x(Math.min(rate, high)), Math.max(axes.top, axes.y(value))];
      const curve = (runs, what, colour, dash) =>
        kit.line(runs.filter(([rate]) => rate <= high).map(([rate, run]) => inside(rate, run[what])), colour, dash);
      const edge = axes.x(Math.min(limit, high)), [x, y] = inside(state.rate, here.p99), [, low] = inside(state.rate, here.mean);
      view.paint([
        key.svg, axes.svg,
        kit.line([[edge, axes.top], [edge, axes.bottom]], "ink", "3 3", 1),
        kit.text(edge - 5, axes.top + 12, `full batches: ${kit.si(limit)} a second`, "end", "ink"),
        curve(alone, "p99", "c4", "2 3"), curve(batches, "mean", "c0", "7 4"), curve(batches, "p99", "c1"),
        kit.line([[x, axes.bottom], [x, Math.min(y, axes.bottom)]], "c1", "1 3", 1),
        kit.dot(x, low, "c0", `mean ${ms(here.mean)}`), kit.dot(x, y, "c1", `99 % within ${ms(here.p99)}`),
      ].join(""), top + 300);
      const alike = (run, rate, told) => (rate < state.rate ? "grows without end" : told(run));
      const row = (name, told) => [name, told(here), told(single)];
      const late = (name, told) => [name, alike(here, limit, told), alike(single, most({ ...state, batch: 1 }), told)];
      view.table([`${gaps.length.toLocaleString("en-US")} requests`, "these settings", "one at a time"], [
        late("mean latency", (run) => ms(run.mean)),
        late("99 % are answered within", (run) => ms(run.p99)),
        row("answers a second", (run) => kit.si(run.throughput)),
        row("requests in a call, mean", (run) => run.size.toFixed(1)),
        row("the model is busy", (run) => kit.percent(run.busy)),
      ]);
      view.say(reached
        ? `99 % of the answers come within ${ms(here.p99)}.`
        : `Requests come faster than full batches can answer them (${kit.si(limit)} a second). The queue grows for as long as this lasts.`);
    },
  });
}

export default { render };
