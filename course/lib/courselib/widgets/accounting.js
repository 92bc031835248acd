// A decoder-only transformer in numbers: parameters, FLOPs a token, and bytes of one training step.
const VOCABULARY = 128000;
const WORK = [{ name: "matrices", colour: "f0" }, { name: "attention", colour: "f1" }];
const BYTES = [{ name: "state, 16 bytes a parameter", colour: "f2" }, { name: "activations", colour: "f3" }];

function numbers({ hidden: h, layers: L, sequence: s, batch }) {
  const blocks = 12 * L * h * h, parameters = blocks + 2 * VOCABULARY * h;
  return {
    parameters,
    matrices: 6 * (blocks + VOCABULARY * h),
    attention: 12 * L * h * s,
    state: 16 * parameters,
    activations: 34 * h * L * s * batch,
    cache: 4 * L * h,
  };
}

function draw(state, view) {
  const found = numbers(state), work = found.matrices + found.attention, bytes = found.state + found.activations;
  const first = kit.legend(view.width, WORK.map((each) => ({ ...each, box: true })));
  const second = kit.legend(view.width, BYTES.map((each) => ({ ...each, box: true })));
  const rowsOne = [{ name: "FLOPs", values: [found.matrices, found.attention], words: kit.si(work, "FLOP") }];
  const rowsTwo = [{ name: "bytes", values: [found.state, found.activations], words: kit.si(bytes, "B") }];
  const middle = first.height + 70;
  view.paint(
    kit.text(0, 10, "training FLOPs for one token, forward and backward", "start", "ink") +
      `<g transform="translate(0 16)">${first.svg}</g>` +
      kit.stacked(view.width, first.height + 24, rowsOne, WORK, work, { right: 110 }) +
      kit.text(0, middle + 10, "bytes of one step, on all GPUs together", "start", "ink") +
      `<g transform="translate(0 ${middle + 16})">${second.svg}</g>` +
      kit.stacked(view.width, middle + second.height + 24, rowsTwo, BYTES, bytes, { right: 110 }),
    middle + second.height + 52,
  );
  const share = Math.round((100 * found.attention) / work);
  view.say(
    `${kit.si(found.parameters).replace("G", " billion").replace("M", " million")} parameters. Attention is ${share} % of the FLOPs. ` +
      `When the model answers, one token's keys and values take ${kit.si(found.cache, "B")}.`,
  );
}

function render({ model, el }) {
  return kit.figure({ model, el }, {
    names: ["hidden", "layers", "sequence", "batch"],
    controls: [
      { name: "hidden", label: "hidden size h", values: [512, 1024, 2048, 4096, 6144, 8192, 12288, 16384] },
      { name: "layers", label: "layers L", values: [2, 8, 16, 32, 48, 64, 80, 96, 128] },
      { name: "sequence", label: "tokens a sequence s", values: kit.powers(9, 20) },
      { name: "batch", label: "sequences in a step", values: kit.powers(0, 10) },
    ],
    hint: "Fused attention, nothing recomputed, a vocabulary of 128,000, plain multi-head attention. Grouped queries divide the keys' and values' bytes.",
    draw,
  });
}

export default { render };
