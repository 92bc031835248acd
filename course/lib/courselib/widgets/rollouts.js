// Generators and a trainer in virtual time: courselib.figures.rollouts.played.
const STEPS = 12, BATCH = 8, NO_LIMIT = 1000;

function played(durations, { generators, ahead, seconds }) {
  const lanes = kit.range(0, generators).map(() => []), ages = [], coming = [];
  let waiting = kit.range(1, generators), ready = [], now = 0, out = 0, version = 0, training = false;
  while (version < STEPS) {
    if (ready.length >= BATCH && !training) {
      ages.push(...ready.slice(0, BATCH).map((made) => version - made));
      ready = ready.slice(BATCH);
      training = true;
      lanes[0].push([now, now + seconds, version + 1]);
      coming.push([now + seconds, 0, version]);
    }
    while (waiting.length && out < BATCH * (version + 1 + ahead)) {
      const lane = waiting.shift(), until = now + durations[out++ % durations.length];
      lanes[lane].push([now, until, version]);
      coming.push([until, lane, version]);
    }
    const next = coming.reduce((best, each) => (each[0] < best[0] || (each[0] === best[0] && each[1] < best[1]) ? each : best));
    coming.splice(coming.indexOf(next), 1);
    now = next[0];
    if (next[1] === 0) [version, training] = [version + 1, false];
    else {
      ready.push(next[2]);
      waiting.push(next[1]);
    }
  }
  return { lanes, ages, end: now };
}

function numbers({ durations, ...state }) {
  const { lanes, ages, end } = played(durations[state.spread.toFixed(1)], state);
  const idle = lanes.map((lane) => 1 - lane.reduce((sum, [since, until]) => sum + Math.max(0, Math.min(until, end) - since), 0) / end);
  const generators = idle.slice(1).reduce((sum, each) => sum + each, 0) / (lanes.length - 1);
  const mean = ages.reduce((sum, each) => sum + each, 0) / ages.length;
  return { lanes, end, trainer: idle[0], generators, mean, oldest: Math.max(...ages) };
}

function draw(state, view) {
  const found = numbers(state), left = 92, wide = view.width - left - 8, at = (time) => left + (wide * Math.min(time, found.end)) / found.end;
  const key = kit.legend(view.width, [
    { name: "trains", colour: "f0", box: true },
    { name: "generates, even version", colour: "f1", box: true },
    { name: "odd version", colour: "f2", box: true },
  ]);
  const out = [key.svg];
  found.lanes.forEach((lane, number) => {
    const y = key.height + 28 * number;
    out.push(kit.text(0, y + 16, number ? `generator ${number}` : "trainer", "start", "ink"), `<rect x="${left}" y="${y}" width="${wide}" height="22" fill="var(--grid)" rx="2"/>`);
    for (const [since, until, version] of lane) {
      if (since >= found.end) continue;
      const x = at(since), room = at(until) - x, fill = number ? (version % 2 ? "f2" : "f1") : "f0", label = String(version);
      out.push(`<rect x="${x.toFixed(1)}" y="${y}" width="${Math.max(room - 1, 0.5).toFixed(1)}" height="22" fill="var(--${fill})" rx="2"/>`);
      if (number && kit.LETTER * label.length + 2 <= room) out.push(kit.text(x + room / 2, y + 15, label, "middle", "ink"));
    }
  });
  view.paint(out.join(""), key.height + 28 * found.lanes.length + 4);
  const percent = (share) => `${Math.round(100 * share)} %`;
  view.table(["", "this run"], [
    [`${STEPS} steps of ${BATCH} answers take`, `${found.end.toFixed(1)} answers' time`],
    ["generators idle", percent(found.generators)],
    ["trainer idle", percent(found.trainer)],
    ["mean age of a sample", `${found.mean.toFixed(2)} versions`],
    ["oldest sample", `${found.oldest} versions`],
  ]);
  view.say(`${STEPS} steps take ${found.end.toFixed(1)}. Generators idle ${percent(found.generators)}, the trainer ${percent(found.trainer)}; the oldest sample is ${found.oldest} versions old.`);
}

function render({ model, el }) {
  const durations = model.get("durations");
  return kit.figure({ model, el }, {
    names: ["ahead", "generators", "seconds", "spread"],
    controls: [
      { name: "ahead", label: "batches ahead", values: [0, 1, 2, 4, NO_LIMIT], show: (value) => (value === NO_LIMIT ? "no limit" : value ? String(value) : "0: synchronous") },
      { name: "generators", label: "generators", values: kit.range(2, 8) },
      { name: "seconds", label: "a training step takes", values: [0.25, 0.5, 1, 2, 3, 4], show: (value) => `${value} × an answer` },
      { name: "spread", label: "spread of the lengths", values: [0, 0.4, 0.8, 1.1], show: (value) => (value ? String(value) : "0: all equal") },
    ],
    hint: "Answers take 1 on average. Numbers are the version of the weights that answered.",
    draw: (state, view) => draw({ durations, ...state }, view),
  });
}

export default { render };
