// Asynchronous training with old gradients, on the course's softmax problem: courselib.figures.staleness.trained.
const CLASSES = 4, FEATURES = 8, RIDGE = 1e-2, SPAN = 60, SIZE = CLASSES * (FEATURES + 1);

function problem(points, labels, least) {
  const bytes = Uint8Array.from(atob(points), (each) => each.charCodeAt(0));
  const inputs = new Float32Array(bytes.buffer), classes = Array.from(labels, Number), scores = new Float64Array(CLASSES);

  // The shares of sample `at` by softmax, into `scores`; minus the log of its own class's.
  function classify(w, at) {
    let most = -Infinity, total = 0;
    for (let c = 0; c < CLASSES; c++) {
      let sum = w[FEATURES * CLASSES + c]; // the bias
      for (let f = 0; f < FEATURES; f++) sum += inputs[at * FEATURES + f] * w[f * CLASSES + c];
      scores[c] = sum;
      most = Math.max(most, sum);
    }
    const own = scores[classes[at]] - most;
    for (let c = 0; c < CLASSES; c++) total += scores[c] = Math.exp(scores[c] - most);
    for (let c = 0; c < CLASSES; c++) scores[c] /= total;
    return Math.log(total) - own;
  }

  return {
    excess(w) {
      let sum = 0, square = 0;
      for (let at = 0; at < classes.length; at++) sum += classify(w, at);
      for (const each of w) square += each * each;
      return sum / classes.length + (RIDGE / 2) * square - least;
    },
    // of all samples of one of the workers
    gradient(w, worker, workers) {
      const found = new Float64Array(SIZE);
      let count = 0;
      for (let at = worker; at < classes.length; at += workers, count++) {
        classify(w, at);
        scores[classes[at]] -= 1;
        for (let c = 0; c < CLASSES; c++) {
          for (let f = 0; f < FEATURES; f++) found[f * CLASSES + c] += inputs[at * FEATURES + f] * scores[c];
          found[FEATURES * CLASSES + c] += scores[c];
        }
      }
      return found.map((each, k) => each / count + RIDGE * w[k]);
    },
  };
}

function trained(task, { workers, way, rate, scaled }) {
  const age = workers * (1 + way) - 1, step = scaled ? rate / (1 + age) : rate;
  let past = [new Float64Array(SIZE)];
  const told = [[0, task.excess(past[0])]];
  for (let update = 0; update < workers * (SPAN - 1 - way); update++) {
    const seen = past[Math.max(0, update - age)], gradient = task.gradient(seen, update % workers, workers);
    past.push(past[update].map((each, k) => each - step * gradient[k]));
    if ((update + 1) % Math.max(1, Math.floor(workers / 2)) === 0) told.push([1 + way + update / workers, task.excess(past[update + 1])]);
  }
  return told;
}

const limit = (age, sharpest) => (2 * Math.sin(Math.PI / (4 * age + 2))) / sharpest;

function render({ model, el }) {
  const task = problem(model.get("points"), model.get("labels"), model.get("least")), sharpest = model.get("sharpest");
  const plain = (value) => String(Number(value.toPrecision(3)));
  return kit.figure({ model, el }, {
    names: ["rate", "workers", "way", "scaled"],
    controls: [
      { name: "rate", label: "learning rate", values: kit.rounds(0.02, 10, [1, 1.2, 1.4, 1.7, 2, 2.5, 3, 3.5, 4, 5, 6, 7, 8.5]), show: plain },
      { name: "workers", label: "workers", values: kit.powers(0, 4) },
      { name: "way", label: "on the way", values: kit.range(0, 5), show: (value) => `for ${value} × its time` },
      { name: "scaled", label: "divide the rate by 1 + age" },
    ],
    draw(state, view) {
      const age = state.workers * (1 + state.way) - 1, step = state.scaled ? state.rate / (1 + age) : state.rate;
      const run = trained(task, state), alone = trained(task, { ...state, workers: 1, way: 0 });
      const names = [{ name: "this run", colour: "c1" }, { name: "one worker, no delay, the same rate", colour: "c4", dash: "2 3" }];
      const key = kit.legend(view.width, names), low = 1e-5, high = 20;
      const axes = kit.frame(view.width, key.height + 290, { low: 0, high: SPAN, label: "time, in times of one gradient" },
        { low, high, log: true, label: "excess loss", show: plain }, key.height);
      const curve = (points, colour, dash) =>
        kit.line(points.map(([time, excess]) => [axes.x(time), axes.y(Math.min(high, Math.max(low, excess)))]), colour, dash);
      view.paint(key.svg + axes.svg + curve(alone, "c4", "2 3") + curve(run, "c1"), key.height + 290);
      const settles = limit(age, sharpest), late = run.slice(-Math.ceil(run.length / 4)).map(([, excess]) => excess);
      view.table(["", "this run"], [
        ["age of each gradient: workers × (1 + way) − 1", `${age} updates`],
        ["rate of each update", plain(step)],
        ["largest rate that settles, by theory", plain(settles)],
        ["updates", String(state.workers * (SPAN - 1 - state.way))],
        ["excess loss at the end", plain(run.at(-1)[1])],
        ["highest in the last quarter", plain(Math.max(...late))],
      ]);
      const share = step / settles;
      view.say(`The rate of each update is ${plain(share)} times the largest that settles. The excess loss ends at ${plain(run.at(-1)[1])}.`);
    },
  });
}

export default { render };
