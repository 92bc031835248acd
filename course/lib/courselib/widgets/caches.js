// How many sequences fit into the memory that the weights leave, by kind of attention.
const LATENT = 512, ROPE = 64, ITEM = 2;
const PART = [{ name: "bytes of a token", colour: "f0" }], FIT = [{ name: "sequences", colour: "f2" }];

function numbers({ layers, heads, kv_heads, head, context, room }) {
  const kept = { MHA: 2 * heads * head, GQA: 2 * kv_heads * head, MQA: 2 * head, MLA: LATENT + ROPE };
  return Object.fromEntries(
    Object.entries(kept).map(([kind, each]) => [kind, [ITEM * layers * each, Math.floor(room / (ITEM * layers * each * context))]]),
  );
}

function draw(state, view) {
  const found = numbers(state), kinds = Object.keys(found), top = 26;
  const rows = (at, say) => kinds.map((kind) => ({ name: kind, values: [found[kind][at]], words: say(found[kind][at]) }));
  const most = (at) => Math.max(1, ...kinds.map((kind) => found[kind][at]));
  const second = top + 24 * kinds.length + 24;
  view.paint(
    kit.text(0, 12, "bytes of keys and values of one token, all layers", "start", "ink") +
      kit.stacked(view.width, top, rows(0, (value) => kit.si(value, "B")), PART, most(0)) +
      kit.text(0, second - 8, `sequences of ${state.context.toLocaleString("en-US")} tokens that fit`, "start", "ink") +
      kit.stacked(view.width, second + 4, rows(1, (value) => value.toLocaleString("en-US")), FIT, most(1)),
    second + 4 + 24 * kinds.length + 6,
  );
  const less = found.MHA[0] / found.GQA[0];
  view.say(`Grouped queries keep ${less.toFixed(less < 10 ? 1 : 0)} times less than plain attention, MLA ${(found.MHA[0] / found.MLA[0]).toFixed(1)} times less.`);
}

function render({ model, el }) {
  return kit.figure({ model, el }, {
    names: ["layers", "heads", "kv_heads", "head", "context", "room"],
    controls: [
      { name: "layers", label: "layers L", values: [16, 32, 48, 61, 80, 126] },
      { name: "heads", label: "heads", values: [16, 32, 64, 96, 128] },
      { name: "kv_heads", label: "KV heads of GQA", values: [1, 2, 4, 8, 16] },
      { name: "head", label: "numbers of a head", values: [64, 128, 192, 256] },
      { name: "context", label: "tokens of a sequence", values: kit.powers(10, 20) },
      { name: "room", label: "room for the cache", values: kit.rounds(10e9, 10e12), show: (value) => kit.si(value, "B") },
    ],
    hint: "16-bit numbers. MLA as in DeepSeek-V2 and V3: 512 numbers for all heads, and a rotary key of 64.",
    draw,
  });
}

export default { render };
