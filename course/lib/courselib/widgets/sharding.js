// ZeRO's stages and FSDP: what a rank keeps of a model's states, and what it sends in a step.
const RECIPES = { mixed: [2, 2, 12], float32: [4, 4, 8], bf16: [2, 2, 4] };
const NAMES = { mixed: "bf16, Adam in float32: 2 + 2 + 12", float32: "float32, Adam: 4 + 4 + 8", bf16: "all bf16, Adam: 2 + 2 + 4" };
const PARTS = [{ name: "parameters", colour: "f0" }, { name: "gradients", colour: "f1" }, { name: "optimizer state", colour: "f2" }];

// By name: bytes kept of parameters, gradients, optimizer state, and bytes sent in a step.
function numbers({ parameters, ranks: n, recipe, micro_batches: often }) {
  const [whole, gradient, state] = RECIPES[recipe].map((each) => each * parameters);
  const one = ((n - 1) / n) * whole; // what a rank sends in a reduce-scatter or an all-gather
  return {
    DDP: [whole, gradient, state, 2 * one],
    "ZeRO 1": [whole, gradient, state / n, 2 * one],
    "ZeRO 2": [whole, gradient / n, state / n, (often + 1) * one],
    "ZeRO 3": [whole / n, gradient / n, state / n, 3 * often * one],
    "FSDP kept": [whole, gradient / n, state / n, 2 * often * one],
  };
}

function draw(state, view) {
  const found = Object.entries(numbers(state)).map(([name, [...values]]) => ({ name, sent: values.pop(), values }));
  for (const each of found) {
    each.memory = each.values.reduce((sum, value) => sum + value);
    each.fits = each.memory <= state.memory;
  }
  const fitting = found.filter((each) => each.fits), least = Math.min(...fitting.map((each) => each.sent));
  const key = kit.legend(view.width, PARTS.map((each) => ({ ...each, box: true })));
  const kept = found.map(({ name, values, memory, fits }) => ({ name, values, pale: !fits, words: `${kit.si(memory, "B")}${fits ? "" : ", too much"}` }));
  const sends = found.map(({ name, sent, fits }) => ({ name, values: [sent], pale: !fits, words: `${kit.si(sent, "B")}, ${kit.si(sent / state.bandwidth, "s")}` }));
  const second = key.height + 20 + 24 * found.length + 30;
  view.paint(
    key.svg +
      kit.text(0, key.height + 10, `a rank keeps; dashed: the ${kit.si(state.memory, "B")} that it has`, "start", "ink") +
      kit.stacked(view.width, key.height + 20, kept, PARTS, Math.max(state.memory, ...found.map((each) => each.memory)), { limit: state.memory, right: 110 }) +
      kit.text(0, second - 8, `a rank sends in a step, and the seconds at ${kit.si(state.bandwidth, "B/s")}`, "start", "ink") +
      kit.stacked(view.width, second, sends, [{ name: "sent", colour: "f3" }], Math.max(1, ...found.map((each) => each.sent)), { right: 110 }),
    second + 24 * found.length + 4,
  );
  const best = fitting.filter((each) => each.sent === least).map((each) => each.name).join(" and ");
  view.say(fitting.length
    ? `These fit, before activations: ${fitting.map((each) => each.name).join(", ")}. Of these ${best} ${best.includes(" and ") ? "send" : "sends"} least: ${kit.si(least, "B")} a step.`
    : "Nothing fits: take more ranks, or cut the model by tensor or pipeline parallelism, too.");
}

function render({ model, el }) {
  return kit.figure({ model, el }, {
    names: ["parameters", "ranks", "recipe", "micro_batches", "memory", "bandwidth"],
    controls: [
      { name: "parameters", label: "parameters P", values: kit.rounds(1e8, 2e12, [1, 2, 3, 5, 7]), show: (value) => kit.si(value).replace("G", " billion").replace("M", " million").replace("T", " trillion") },
      { name: "ranks", label: "ranks N", values: kit.powers(0, 12) },
      { name: "micro_batches", label: "micro-batches A", values: kit.powers(0, 7) },
      { name: "recipe", label: "bytes a parameter", options: NAMES },
      { name: "memory", label: "memory of a GPU", values: [24e9, 40e9, 80e9, 141e9, 186e9], show: (value) => kit.si(value, "B") },
    ],
    hint: "States only, without activations. FSDP kept: reshard_after_forward=False leaves parameters whole until the backward pass has used them.",
    draw,
  });
}

export default { render };
