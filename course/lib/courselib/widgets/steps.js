// A cluster stepped by its reader: courselib.stepper has the states. What is recorded needs no kernel; the rest asks it.
const KINDS = { deliver: "arrives", drop: "is lost", crash: "crash", restart: "restart", cut: "cut off", heal: "reconnect" };
const same = (one, other) => JSON.stringify(one) === JSON.stringify(other);

// A message in words: its type, and what else it holds.
function told(text) {
  const { type, msg_id: _, in_reply_to: __, ...rest } = JSON.parse(text);
  const words = (value) =>
    value === null || typeof value !== "object" ? String(value)
      : Array.isArray(value) ? `[${value.map(words).join(", ")}]`
        : Object.entries(value).map(([name, each]) => `${name} ${words(each)}`).join(", ");
  return [type, ...Object.entries(rest).map(([name, value]) => `${name} ${words(value)}`)].join(", ");
}

// One state of a record, with all that it says of nodes and messages, and what can happen next.
function opened(record, at, names, asks) {
  const frame = record.frames[at];
  const state = {
    ...frame,
    views: frame.nodes.map((number) => record.views[number]),
    messages: frame.messages.map(([number, count]) => ({ key: record.messages[number], count })),
  };
  const apart = (src, dst) => src !== dst && names.includes(src) && [src, dst].some((each) => frame.cut[names.indexOf(each)]);
  state.actions = [];
  for (const { key } of state.messages) {
    const [src, dst] = key, node = names.indexOf(dst);
    if (node >= 0 && !frame.down[node] && !apart(src, dst)) state.actions.push(["deliver", ...key]);
    state.actions.push(["drop", ...key]);
  }
  names.forEach((name, node) => {
    if (!frame.down[node] && state.views[node].timers.length) state.actions.push(["timer", name]);
    state.actions.push([frame.down[node] ? "restart" : "crash", name], [frame.cut[node] ? "heal" : "cut", name]);
  });
  Object.keys(asks).forEach((client, k) => frame.asked[k] < asks[client].length && state.actions.push(["ask", client]));
  state.next = (action) => frame.to?.[state.actions.findIndex((each) => same(each, action))] ?? -1;
  return state;
}

// What an action made: messages that were sent and answers that clients heard.
function made(before, action, after) {
  const left = new Map(before.messages.map(({ key, count }) => [key.join("\n"), count]));
  if (action[0] === "deliver" || action[0] === "drop") left.set(action.slice(1).join("\n"), left.get(action.slice(1).join("\n")) - 1);
  const sent = after.messages.flatMap(({ key, count }) => Array(count - (left.get(key.join("\n")) ?? 0)).fill(key));
  return { sent, heard: after.heard.slice(before.heard.length) };
}

function sentence(before, action, after, asks) {
  const [kind, who, dst, text] = action, { sent, heard } = made(before, action, after);
  const begin = {
    deliver: () => `${dst} gets “${told(text)}” from ${who}`, drop: () => `“${told(text)}” from ${who} to ${dst} is lost`,
    timer: () => `The timer “${before.timer(who)}” of ${who} goes off`, crash: () => `${who} crashes`, restart: () => `${who} starts again, with what is on its disk`,
    cut: () => `${who} is cut off from the other nodes`, heal: () => `${who} is connected again`, ask: () => `${who} asks`,
  }[kind]();
  const more = [...sent.map(([, to, what]) => `“${told(what)}” to ${to}`), ...heard.map(([client, what]) => `“${told(what)}” to the client ${client}`)];
  return `${begin}${more.length ? `${kind === "ask" ? ": " : ". Sent: "}${more.join("; ")}` : ""}.`;
}

// The path so far as a time diagram: a lane for each client and node, a column for each step.
function diagram(path, at, lanes, names, width) {
  const left = 12 + 6.4 * Math.max(...lanes.map((name) => name.length)), gap = 40, height = 22 + gap * lanes.length;
  const step = Math.min(56, (width - left - 16) / Math.max(8, path.length - 1)), x = (k) => left + 8 + step * k;
  const y = (name) => 18 + gap * lanes.indexOf(name), parts = [], labels = [], waiting = new Map(), bad = "f5";
  const put = (key, k) => waiting.set(key.join("\n"), [...(waiting.get(key.join("\n")) ?? []), k]);
  const stroke = (d, colour, name, dash = "") =>
    `<path d="${d}" fill="none" stroke="var(--${colour})" stroke-width="1.6" stroke-dasharray="${dash}"><title>${kit.escape(name)}</title></path>`;
  const arrow = (x1, y1, x2, y2, colour, name) => { // bent round the lanes between
    const far = Math.abs(y2 - y1) > gap, [bx, by] = far ? [x1 + (x2 - x1) * 0.75, y1 + (y2 - y1) * 0.5] : [(x1 + x2) / 2, (y1 + y2) / 2];
    const turn = Math.atan2(y2 - by, x2 - bx), tip = (by) => `${(x2 - 7 * Math.cos(turn + by)).toFixed(1)} ${(y2 - 7 * Math.sin(turn + by)).toFixed(1)}`;
    return stroke(`M${x1.toFixed(1)} ${y1}Q${bx.toFixed(1)} ${by.toFixed(1)} ${x2.toFixed(1)} ${y2}M${tip(0.4)}L${x2.toFixed(1)} ${y2}L${tip(-0.4)}`, colour, name);
  };
  const label = (x1, x2, y1, y2, text) => kit.text((x1 + x2) / 2 + 4, (y1 + y2) / 2 + (y2 > y1 ? -3 : 10), JSON.parse(text).type, "start", "ink", 'style="paint-order: stroke; stroke: var(--paper); stroke-width: 3px"');
  const cross = (cx, cy) => `<path d="M${cx - 5} ${cy - 5}l10 10m0 -10l-10 10" stroke="var(--${bad})" stroke-width="2.4"/>`;
  for (const { key, count } of path[0].state.messages) for (let k = 0; k < count; k++) put(key, 0); // sent by on_start
  for (const name of lanes) {
    parts.push(kit.text(4, y(name) + 4, name, "start", "ink", names.includes(name) ? 'font-weight="600"' : ""));
    const node = names.indexOf(name);
    for (let k = 0; k < path.length; k++) {
      const { state } = path[Math.min(k, at)], down = node >= 0 && state.down[node], cut = node >= 0 && k <= at && state.cut[node];
      const [x1, x2] = [k ? x(k) : x(0) - 4, k === path.length - 1 ? x(k) + 8 : x(k + 1)];
      if (cut) parts.push(`<rect x="${x1}" y="${y(name) - 9}" width="${x2 - x1}" height="18" fill="var(--${bad})" fill-opacity="0.18"/>`);
      if (!down) parts.push(`<path d="M${x1} ${y(name)}H${x2}" stroke="var(--faint)" stroke-opacity="${k <= at ? 1 : 0.3}"/>`);
    }
  }
  for (let k = 1; k <= at; k++) {
    const { action } = path[k], [kind, who, dst, text] = action, now = k === at ? "c1" : "c0";
    if (kind === "deliver" || kind === "drop") {
      const from = waiting.get(action.slice(1).join("\n")).shift(), lost = kind === "drop";
      const [x1, x2, y1, y2] = [x(from), x(k), y(who), y(dst)];
      if (lost) parts.push(stroke(`M${x1} ${y1}L${(x1 + x2) / 2} ${(y1 + y2) / 2}`, bad, told(text), "4 3"), cross((x1 + x2) / 2, (y1 + y2) / 2));
      else {
        parts.push(arrow(x1, y1, x2, y2, now, told(text)));
        if (step > 44 || k === at) labels.push(label(x1, x2, y1, y2, text));
      }
    } else if (kind === "crash") parts.push(cross(x(k), y(who)));
    else if (kind === "timer" || kind === "restart") parts.push(kit.dot(x(k), y(who), kind === "timer" ? now : "c2", `${who}: ${kind}`));
    const { sent, heard } = made(path[k - 1].state, action, path[k].state);
    for (const key of sent) put(key, k);
    const from = kind === "deliver" ? dst : who;
    for (const [client, what] of heard) parts.push(arrow(x(k), y(from), x(k) + step * 0.7, y(client), "c3", told(what)));
  }
  for (const [key, steps] of waiting) {
    const [src, dst, text] = key.split("\n"), toward = Math.sign(y(dst) - y(src));
    for (const k of steps) parts.push(stroke(`M${x(k)} ${y(src)}l${Math.min(14, step * 0.5)} ${14 * toward}`, "c0", `under way: ${told(text)}`, "3 2"));
  }
  parts.push(`<path d="M${x(at)} 4V${height - 18}" stroke="var(--ink)" stroke-dasharray="2 4"/>`, kit.text(x(at), height - 4, at ? `step ${at}` : "start", x(at) > width - 30 ? "end" : at > 1 ? "middle" : "start"));
  return [[...parts, ...labels].join(""), height];
}

function render({ model, el }) {
  const [names, asks, record, line] = ["names", "asks", "record", "line"].map((name) => model.get(name));
  const kernel = typeof model.send === "function"; // a page's model has nobody to ask
  const lanes = [...Object.keys(asks), ...names];
  const open = (from, at) => {
    const state = opened(from, at, names, asks);
    state.timer = (name) => state.views[names.indexOf(name)].timers[0].split(",")[0];
    return state;
  };
  const path = [{ action: null, state: open(record, 0) }];
  for (const action of line) path.push({ action, state: open(record, path.at(-1).state.next(action)) });
  let at = 0, failed = "", wished = null, view = null;

  function go(action) {
    const to = path[at].state.next(action);
    failed = "";
    if (to >= 0) arrive(action, open(record, to));
    else {
      wished = { action, path: [...path.slice(1, at + 1).map((each) => each.action), action] };
      model.set("wish", wished.path);
      model.save_changes();
    }
  }
  function arrive(action, state) {
    path.splice(at + 1, Infinity, { action, state });
    at += 1;
    show();
  }
  model.on("change:seen", () => {
    const seen = model.get("seen");
    if (!wished || !same(seen.path, wished.path)) return;
    const { action } = wished;
    wished = null;
    if (seen.failed) {
      failed = seen.failed;
      show();
    } else arrive(action, open(seen.record, 0));
  });

  const box = (parent, tag, kind, words = "") => {
    const each = document.createElement(tag);
    each.className = kind;
    each.textContent = words; // never as HTML: words may be a learner's
    parent.append(each);
    return each;
  };
  function button(parent, words, press, key, label = words) {
    const each = box(parent, "button", "", words);
    each.type = "button";
    each.dataset.key = key;
    each.setAttribute("aria-label", label);
    each.onclick = press;
    return each;
  }
  function act(parent, words, action, label) {
    const each = button(parent, words, () => go(action), JSON.stringify(action), label), { state } = path[at];
    const known = state.next(action) >= 0;
    const possible = state.actions.some((one) => same(one, action));
    each.disabled = !possible || !(known || kernel);
    if (each.disabled) each.title = possible ? "Not recorded on this page: the notebook can go on here." : "The receiver is down, or cut off.";
  }

  let bar, panel, slider, count;
  function build() {
    const style = document.createElement("style");
    style.textContent = STYLE;
    view.svg.before(style);
    bar = document.createElement("div");
    bar.className = "bar";
    view.svg.before(bar);
    button(bar, "◀", () => move(at - 1), "back", "one step back");
    slider = box(bar, "input", "");
    [slider.type, slider.min, slider.step] = ["range", 0, 1];
    slider.setAttribute("aria-label", "step");
    slider.oninput = () => move(Number(slider.value));
    button(bar, "▶", () => move(at + 1), "on", "one step on");
    count = box(bar, "output", "");
    panel = document.createElement("div");
    panel.className = "panel";
    view.svg.after(panel);
  }
  function move(to) {
    at = Math.max(0, Math.min(path.length - 1, to));
    failed = "";
    show();
  }

  function cards(parent) {
    const { state } = path[at], before = at ? path[at - 1].state : state;
    names.forEach((name, node) => {
      const card = box(parent, "section", state.down[node] ? "node down" : "node"), head = box(card, "div", "head");
      box(head, "b", "", name);
      box(head, "span", "", [state.down[node] && "down", state.cut[node] && "cut off"].filter(Boolean).join(", "));
      const list = box(card, "dl", ""), now = state.views[node], then = before.views[node];
      const row = (key, value, changed) => { box(list, "dt", "", key); box(list, "dd", changed ? "changed" : "", String(value)); };
      if (!state.down[node]) for (const [key, value] of Object.entries(now.vars)) row(key, value, value !== then.vars[key]);
      for (const [key, value] of Object.entries(now.disk)) row(`disk: ${key}`, value, value !== then.disk[key]);
      const foot = box(card, "div", "foot");
      if (!state.down[node] && now.timers.length) act(foot, `timer ${now.timers[0]}`, ["timer", name], `${name}: timer ${now.timers[0]} goes off`);
      for (const kind of [state.down[node] ? "restart" : "crash", state.cut[node] ? "heal" : "cut"]) act(foot, KINDS[kind], [kind, name], `${name}: ${KINDS[kind]}`);
    });
  }

  function show() {
    const { state, action } = path[at], focused = el.querySelector(":focus")?.dataset.key;
    [slider.max, slider.value] = [path.length - 1, at];
    count.textContent = `step ${at} of ${path.length - 1}`;
    const [svg, height] = diagram(path, at, lanes, names, view.width);
    view.paint(svg, height);
    panel.replaceChildren();
    const told_ = box(panel, "p", "told", at ? sentence(path[at - 1].state, action, state, asks) : `All nodes have started. Choose what happens${line.length ? ", or step through the recorded run" : ""}.`);
    told_.setAttribute("role", "status");
    if (state.wrong) box(panel, "p", "bad", state.wrong);
    if (failed) box(panel, "p", "bad", failed);
    const list = box(panel, "ul", "messages");
    Object.keys(asks).forEach((client, k) => {
      const next = asks[client][state.asked[k]];
      if (next) act(box(list, "li", "", `${client} asks ${next[0]}: ${told(next[1])} `), "ask", ["ask", client], `${client} asks`);
    });
    for (const { key, count: many } of state.messages) {
      const item = box(list, "li", "", `${key[0]} → ${key[1]}: ${told(key[2])}${many > 1 ? ` (${many} of them)` : ""} `);
      for (const kind of ["deliver", "drop"]) act(item, KINDS[kind], [kind, ...key], `${key[0]} to ${key[1]}, ${told(key[2])}: ${KINDS[kind]}`);
    }
    if (!list.childElementCount) box(list, "li", "", "No message is under way.");
    cards(box(panel, "div", "nodes"));
    if (!kernel && state.actions.some((each) => state.next(each) < 0)) box(panel, "p", "hint", "Pale buttons: this page has not recorded what comes then. The notebook can go on anywhere.");
    const again = [...el.querySelectorAll("[data-key]")].find((each) => each.dataset.key === focused && !each.disabled);
    if (focused) (again ?? panel.querySelector("button:enabled") ?? slider).focus({ preventScroll: true });
  }

  return kit.figure({ model, el }, {
    names: [], controls: [],
    draw(_, drawn) {
      view = drawn;
      if (!panel) build();
      show();
    },
  });
}

const STYLE = `
.rankup-figure .bar { display: flex; gap: 8px; align-items: center; margin: 4px 0; }
.rankup-figure .bar input { flex: 1; min-width: 60px; accent-color: var(--c0); }
.rankup-figure .bar output { font-variant-numeric: tabular-nums; }
.rankup-figure button:disabled { opacity: 0.4; cursor: default; }
.rankup-figure .panel p { margin: 4px 0; }
.rankup-figure .told { min-height: 2.9em; }
.rankup-figure .bad { color: var(--f5); font-weight: 600; }
.rankup-figure .messages { list-style: none; padding: 0; margin: 4px 0 8px; min-height: 4.5em; }
.rankup-figure .messages li { margin: 3px 0; color: inherit; }
.rankup-figure .messages button, .rankup-figure .foot button { padding: 0 7px; font-size: 12px; margin-right: 3px; }
.rankup-figure .nodes { display: grid; grid-template-columns: repeat(auto-fill, minmax(195px, 1fr)); gap: 8px; }
.rankup-figure .node { border: 1px solid var(--faint); border-radius: 6px; padding: 4px 8px 6px; display: flex; flex-direction: column; }
.rankup-figure .node.down { border-style: dashed; opacity: 0.75; }
.rankup-figure .head { display: flex; justify-content: space-between; }
.rankup-figure .head span { color: var(--f5); font-weight: 600; }
.rankup-figure dl { display: grid; grid-template-columns: max-content 1fr; gap: 0 8px; margin: 2px 0 6px; font-size: 12px; flex: 1; align-content: start; }
.rankup-figure :is(dt, dd) { float: none; width: auto; margin: 0; font-weight: 400; color: inherit; overflow-wrap: anywhere; }
.rankup-figure dt { color: var(--faint); }
.rankup-figure dd.changed { font-weight: 700; color: var(--c1); }
`;

export default { render };
