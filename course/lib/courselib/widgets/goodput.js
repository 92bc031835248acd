// Goodput of a job that fails and is checkpointed, over the work between two checkpoints.
const LOW = 10, HIGH = 400000, MINUTE = 60, HOUR = 3600;
const TICKS = [10, MINUTE, 10 * MINUTE, HOUR, 10 * HOUR, 96 * HOUR];
const PARTS = [
  { name: "useful", colour: "f0" },
  { name: "saving", colour: "f1" },
  { name: "done again", colour: "f5" },
  { name: "restarting", colour: "f3" },
];

// Shares of the time: useful, saving, done again, restarting; exactly, for failures at a constant rate.
function shares(interval, { cost, mtbf, restart }) {
  const failures = Math.expm1((interval + cost) / mtbf); // for each checkpoint that is written
  const whole = mtbf * failures * Math.exp(restart / mtbf), restarting = failures * mtbf * Math.expm1(restart / mtbf);
  const redone = Math.max(0, whole - interval - cost - restarting);
  return [interval, cost, redone, restarting].map((each) => each / whole);
}

const first_order = (interval, { cost, mtbf, restart }) => Math.max(0, 1 - cost / interval - interval / (2 * mtbf) - restart / mtbf);

// Where the exact goodput is highest: exp((T + C)/M) (1 - T/M) = 1.
function best_interval({ cost, mtbf }) {
  let low = 0, high = mtbf;
  for (let at = 0; at < 80; at++) {
    const middle = (low + high) / 2;
    if (Math.exp((middle + cost) / mtbf) * (1 - middle / mtbf) > 1) low = middle;
    else high = middle;
  }
  return low;
}

function numbers(state) {
  const young = Math.sqrt(2 * state.cost * state.mtbf);
  return { young, best: best_interval(state), now: shares(state.interval, state), at_young: shares(young, state), first_order: first_order(state.interval, state) };
}

function draw(state, view) {
  const { young, best, now, at_young } = numbers(state);
  const lines = [{ name: "goodput", colour: "c0" }, { name: "to first order, 1 − C/T − T/2M − R/M", colour: "c4", dash: "7 4" }];
  const key = kit.legend(view.width, lines), height = key.height + 260;
  const axes = kit.frame(view.width, height,
    { low: LOW, high: HIGH, log: true, label: "work T between two checkpoints", ticks: TICKS, show: kit.time },
    { low: 0, high: 1, show: kit.percent, label: "goodput" }, key.height);
  const times = kit.range(0, 160).map((at) => LOW * (HIGH / LOW) ** (at / 160));
  const exact = (time) => shares(time, state)[0];
  const parts = [key.svg, axes.svg,
    kit.line(times.map((time) => [axes.x(time), axes.y(first_order(time, state))]), "c4", "7 4"),
    kit.line(times.map((time) => [axes.x(time), axes.y(exact(time))]), "c0"),
    `<path d="M${axes.x(state.interval)} ${axes.top}V${axes.bottom}" stroke="var(--faint)" stroke-dasharray="3 3"/>`,
    kit.dot(axes.x(state.interval), axes.y(now[0]), "c0", `T = ${kit.time(state.interval)}: ${kit.percent(now[0])}`),
  ];
  if (young >= LOW && young <= HIGH) {
    const [x, y] = [axes.x(young), axes.y(at_young[0])];
    parts.push(`<path d="M${x.toFixed(1)} ${y - 6}l5 -9h-10z" fill="var(--c1)"/>`, kit.label(view.width, x, Math.max(y - 14, axes.top + 8), `√(2CM) = ${kit.time(young)}`));
  }
  const under = kit.legend(view.width, PARTS.map((each) => ({ ...each, box: true })));
  parts.push(`<g transform="translate(0 ${height + 6})">${under.svg}${kit.stacked(view.width, under.height + 4, [
    { name: "at T", values: now, words: kit.percent(now[0]) },
    { name: "at √(2CM)", values: at_young, words: kit.percent(at_young[0]) },
  ], PARTS, 1, { right: 56 })}</g>`);
  view.paint(parts.join(""), height + under.height + 60);
  view.say(`T = ${kit.time(state.interval)}: goodput ${(100 * now[0]).toFixed(1)} %. At √(2CM) = ${kit.time(young)} it is ${(100 * at_young[0]).toFixed(1)} %; the curve is highest at ${kit.time(best)}.`);
}

function render({ model, el }) {
  const times = (low, high) => [1, 2, 5, 10, 15, 20, 30, 60, 120, 180, 300, 600, 900, 1200, 1800, HOUR, 2 * HOUR, 3 * HOUR, 6 * HOUR, 12 * HOUR, 24 * HOUR, 48 * HOUR, 96 * HOUR, 240 * HOUR, 720 * HOUR].filter((each) => each >= low && each <= high);
  const interval = kit.range(0, 60).map((at) => Number((LOW * (HIGH / LOW) ** (at / 60)).toPrecision(2)));
  return kit.figure({ model, el }, {
    names: ["interval", "cost", "mtbf", "restart"],
    controls: [
      { name: "interval", label: "interval T", values: interval, show: kit.time },
      { name: "cost", label: "cost of a checkpoint C", values: times(1, 1200), show: kit.time },
      { name: "mtbf", label: "MTBF of the job M", values: times(600, 720 * HOUR), show: kit.time },
      { name: "restart", label: "detect and restart R", values: [0, ...times(5, 6 * HOUR)], show: kit.time },
    ],
    buttons: { "T = √(2CM)": (set, state) => set({ interval: Number(numbers(state()).young.toPrecision(3)) }) },
    hint: "Failures come independently, at a constant rate. Each takes the work since the last checkpoint, and then the restart.",
    draw,
  });
}

export default { render };
