// The roofline of prefill and decode: FLOPs a byte, and what one GPU can reach at most.
const MODELS = {
  "8B": { parameters: 8e9, layers: 32, hidden: 4096 },
  "70B": { parameters: 70e9, layers: 80, hidden: 8192 },
  "405B": { parameters: 405e9, layers: 126, hidden: 16384 },
};
const MACHINES = { "8xh100": { flops: 989e12, bandwidth: 3.35e12 }, nvl72: { flops: 2500e12, bandwidth: 8e12 } };
const KV = 2 * 8 * 128, ITEM = 2;

function numbers({ model, machine, prompt, batch, context }) {
  const { parameters, layers, hidden } = MODELS[model], { flops, bandwidth } = MACHINES[machine];
  const weights = parameters * ITEM, token = layers * KV * ITEM;
  const work = (done, read) => [done / read, Math.min(flops, (done / read) * bandwidth)];
  return {
    prefill: work(2 * parameters * prompt + 2 * layers * hidden * prompt ** 2, weights + prompt * token),
    decode: work(batch * (2 * parameters + 4 * layers * hidden * context), weights + batch * context * token),
    ridge: flops / bandwidth,
  };
}

function draw(state, view) {
  const found = numbers(state), { flops, bandwidth } = MACHINES[state.machine];
  const across = { low: 1, high: 2e4, log: true, unit: "", label: "FLOPs a byte" };
  const up = { low: 1e12, high: 5e15, log: true, unit: "", label: "FLOP/s of one GPU, at most" };
  const axes = kit.frame(view.width, 330, across, up);
  const at = (x) => [axes.x(x), axes.y(Math.min(flops, x * bandwidth))];
  const points = [["prefill", found.prefill, "c0"], ["decode", found.decode, "c1"]].map(([name, [x, y], colour]) => {
    const [px, py] = [axes.x(Math.min(x, across.high)), axes.y(y)];
    return kit.dot(px, py, colour, name) + kit.label(view.width, px, py + (name === "prefill" ? -10 : 16), name);
  });
  view.paint(
    axes.svg + kit.line([at(1), at(found.ridge), at(across.high)], "ink") +
      kit.line([[axes.x(found.ridge), axes.top], [axes.x(found.ridge), axes.bottom]], "faint", "3 3", 1) + points.join(""),
    330,
  );
  const part = ([x, y]) => `${x < 10 ? x.toFixed(1) : Math.round(x).toLocaleString("en-US")} FLOPs a byte, ${kit.percent(y / flops)} of the peak`;
  view.say(`Prefill: ${part(found.prefill)}. Decode: ${part(found.decode)}. The roofs cross at ${Math.round(found.ridge)}.`);
}

function render({ model, el }) {
  return kit.figure({ model, el }, {
    names: ["model", "machine", "prompt", "batch", "context"],
    controls: [
      { name: "model", label: "model, Llama 3", options: { "8B": "8 B", "70B": "70 B", "405B": "405 B" } },
      { name: "machine", label: "machine", options: { "8xh100": "8 × H100", nvl72: "NVL72" } },
      { name: "prompt", label: "prefill: tokens of the prompt", values: kit.powers(4, 17) },
      { name: "batch", label: "decode: sequences in a batch", values: kit.powers(0, 12) },
      { name: "context", label: "decode: tokens in each cache", values: kit.powers(7, 17) },
    ],
    hint: "bf16 weights and caches, cut evenly over all GPUs of the machine. Peak, dense; messages are left out.",
    draw,
  });
}

export default { render };
