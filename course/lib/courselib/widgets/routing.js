// Experts on ranks: what a skewed router leaves each rank to do, what a capacity drops, and what dispatch sends.
const TOKENS = 4096, HIDDEN = 4096, BYTES = 2;
const PARTS = [{ name: "computed", colour: "f0" }, { name: "dropped", colour: "f3" }];

function numbers({ experts, ranks, k, skew, capacity }) {
  const favor = Array.from({ length: experts }, (_, i) => Math.exp((-skew * i) / experts));
  const total = favor.reduce((sum, each) => sum + each), each = experts / ranks;
  const kept = Array(ranks).fill(0), asked = Array(ranks).fill(0);
  favor.forEach((value, i) => {
    const load = (value * experts) / total, rank = Math.floor(i / each);
    asked[rank] += load / each;
    kept[rank] += Math.min(load, capacity || load) / each;
  });
  const whole = (k * TOKENS * HIDDEN * BYTES * (ranks - 1)) / ranks;
  return { kept, dropped: asked.map((load, rank) => load - kept[rank]), sent: whole, received: whole * Math.max(...asked) };
}

function draw(state, view) {
  const found = numbers(state), most = Math.max(...found.kept);
  const mean = (values) => values.reduce((sum, each) => sum + each) / values.length;
  const key = kit.legend(view.width, PARTS.map((each) => ({ ...each, box: true })));
  const rows = found.kept.map((load, rank) => ({
    name: `rank ${rank}`,
    values: [load, found.dropped[rank]],
    words: found.dropped[rank] > 0.005 ? `${load.toFixed(2)}, drops ${found.dropped[rank].toFixed(2)}` : load.toFixed(2),
  }));
  const all = Math.max(...found.kept.map((load, rank) => load + found.dropped[rank]));
  view.paint(
    key.svg +
      kit.text(0, key.height + 10, "pairs (token, expert) for each rank's experts, over the mean of all ranks", "start", "ink") +
      kit.stacked(view.width, key.height + 20, rows, PARTS, all, { right: 130 }),
    key.height + 24 + 24 * rows.length,
  );
  const useful = Math.round((100 * mean(found.kept)) / most), lost = Math.round(100 * mean(found.dropped));
  view.say(
    `All wait for the fullest rank, so a rank computes ${useful} % of the time. ${lost ? `${lost} % of the pairs are dropped.` : "Nothing is dropped."} ` +
      `A rank dispatches ${kit.si(found.sent, "B")} on average, and the fullest would receive ${kit.si(found.received, "B")}.`,
  );
}

function render({ model, el }) {
  return kit.figure({ model, el }, {
    names: ["experts", "ranks", "k", "skew", "capacity"],
    controls: [
      { name: "skew", label: "skew of the router", values: [0, 0.5, 1, 1.5, 2, 2.5, 3, 3.5, 4] },
      { name: "capacity", label: "capacity, over the mean", values: [0, 1, 1.25, 1.5, 2, 3], show: (value) => value || "none" },
      { name: "ranks", label: "ranks N", values: kit.powers(1, 4) },
      { name: "experts", label: "experts E", values: kit.powers(5, 8) },
      { name: "k", label: "experts a token k", values: kit.powers(0, 3) },
    ],
    hint: "Expert i gets a share in proportion to exp(-skew · i/E), and neighbors are on one rank. Bytes are those of one layer's dispatch, forward, before drops: 4,096 tokens a rank, h = 4,096, bf16.",
    draw,
  });
}

export default { render };
