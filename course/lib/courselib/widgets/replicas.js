// One partition of a log and its in-sync replicas, step by step: courselib.isr.
const BROKERS = ["b1", "b2", "b3"];
const START = { logs: [[], [], []], up: [true, true, true], isr: [0, 1, 2], leader: null, epoch: 1, high: 0, said: [], note: "" };

function actions(state) {
  const found = ["send"];
  BROKERS.forEach((name, at) => {
    if (!state.up[at]) return found.push(`restart ${name}`);
    if (state.leader !== null && at !== state.leader) {
      found.push(`fetch ${name}`);
      if (state.isr.includes(at)) found.push(`lag ${name}`);
    }
    found.push(`kill ${name}`, `wreck ${name}`);
  });
  return found;
}

const put = (values, at, value) => values.map((each, k) => (k === at ? value : each));

function after(state, setting, action) {
  const [verb, name] = action.split(" "), at = BROKERS.indexOf(name);
  state = { ...state, note: "" };
  if (verb === "send") return acknowledged(sent(state, setting), setting);
  if (verb === "fetch") {
    const isr = [...new Set([...state.isr, at])].sort();
    state = { ...state, logs: put(state.logs, at, state.logs[state.leader]), isr, note: `${name} has all that the leader has` };
  } else if (verb === "lag") state = { ...state, isr: state.isr.filter((each) => each !== at), note: `${name} is too slow, and leaves the ISR` };
  else if (verb === "restart") {
    state = { ...state, up: put(state.up, at, true), note: `${name} is back` };
    if (state.leader === null) state = elected(state, setting);
  } else {
    state = { ...state, up: put(state.up, at, false), note: `${name} is down` };
    if (verb === "wreck") state = { ...state, logs: put(state.logs, at, []), note: `${name} is down, and its log is gone` };
    if (state.isr.length > 1) state = { ...state, isr: state.isr.filter((each) => each !== at) };
    if (state.leader === at) state = elected({ ...state, leader: null }, setting);
  }
  return acknowledged(state, setting);
}

function sent(state, setting) {
  const number = state.said.length + 1, say = (told, note) => ({ ...state, said: [...state.said, told], note });
  if (state.leader === null) return say(setting.acks === "0" ? "acknowledged" : "refused", "there is no leader");
  if (setting.acks === "all" && state.isr.length < setting.min_isr) return say("refused", "too few replicas are in sync");
  const log = [...state.logs[state.leader], [state.epoch, number]];
  return { ...say(setting.acks === "all" ? "waits" : "acknowledged", `message ${number} is in the leader's log`), logs: put(state.logs, state.leader, log) };
}

function elected(state, setting) {
  let able = state.isr.filter((at) => state.up[at]);
  if (!able.length && setting.unclean) able = [0, 1, 2].filter((at) => state.up[at]);
  if (!able.length) return { ...state, note: `${state.note}: nobody who lives is in the ISR, so there is no leader` };
  const [leader] = able, isr = state.isr.includes(leader) ? state.isr : [leader];
  return { ...state, leader, isr, epoch: state.epoch + 1, high: Math.min(state.high, state.logs[leader].length), note: `${state.note}: ${BROKERS[leader]} leads` };
}

function common(one, other) {
  let at = 0;
  while (at < one.length && at < other.length && one[at].join() === other[at].join()) at++;
  return at;
}

function acknowledged(state, setting) {
  if (state.leader === null) return state;
  const mine = state.logs[state.leader];
  let high = state.high;
  if (state.isr.length >= setting.min_isr) high = Math.max(high, Math.min(...state.isr.map((at) => common(state.logs[at], mine))));
  const safe = mine.slice(0, high).map(([, number]) => number);
  return { ...state, high, said: state.said.map((told, at) => (told === "waits" && safe.includes(at + 1) ? "acknowledged" : told)) };
}

function lost(state) {
  if (state.leader === null) return [];
  const kept = state.logs[state.leader].map(([, number]) => number);
  return state.said.flatMap((told, at) => (told === "acknowledged" && !kept.includes(at + 1) ? [at + 1] : []));
}

// Steps that cannot happen (a setting was changed after they were taken) are passed over.
function played(setting, steps) {
  let state = { ...START, leader: 0 };
  for (const step of steps) if (actions(state).includes(step)) state = after(state, setting, step);
  return { ...state, lost: lost(state) };
}

function picture(state, width) {
  const cell = 34, left = 130, parts = [], low = 14 + 36 * BROKERS.length;
  BROKERS.forEach((name, line) => {
    const y = 8 + 36 * line, up = state.up[line];
    const words = [...(state.leader === line ? ["leader"] : []), ...(state.isr.includes(line) ? ["in sync"] : []), ...(up ? [] : ["down"])].join(", ");
    parts.push(kit.text(2, y + 17, words ? `${name}: ${words}` : `${name}: behind`, "start", "ink", state.leader === line ? 'font-weight="600"' : ""));
    state.logs[line].forEach(([epoch, number], at) => {
      const fill = state.lost.includes(number) ? "f5" : state.said[number - 1] === "acknowledged" ? "f2" : "f4";
      parts.push(`<g opacity="${up ? 1 : 0.45}"><rect x="${left + cell * at}" y="${y}" width="${cell - 4}" height="26" rx="3" fill="var(--${fill})"><title>message ${number}, epoch ${epoch}: ${state.said[number - 1]}</title></rect>`);
      parts.push(kit.text(left + cell * at + 15, y + 17, String(number), "middle", `${fill}i`), "</g>");
    });
  });
  const mark = left + cell * state.high - 2;
  parts.push(`<path d="M${mark} 2V${low}" stroke="var(--ink)" stroke-width="2" stroke-dasharray="4 3"/>`, kit.text(mark, low + 14, "high watermark: consumers read up to here", mark > width / 2 ? "end" : "start", "ink"));
  const key = kit.legend(width, [{ name: "acknowledged", colour: "f2", box: true }, { name: "not acknowledged", colour: "f4", box: true }, { name: "acknowledged, and the leader lacks it", colour: "f5", box: true }]);
  parts.push(`<g transform="translate(0 ${low + 24})">${key.svg}</g>`);
  return [parts.join(""), low + 24 + key.height];
}

function render({ model, el }) {
  const setting = (state) => ({ acks: state.acks, min_isr: state.min_isr, unclean: state.unclean });
  const step = (action) => (set, now) => {
    const state = now();
    if (actions(played(setting(state), state.steps)).includes(action)) set({ steps: [...state.steps, action] });
  };
  const buttons = {
    "send a message": step("send"),
    "step back": (set, now) => set({ steps: now().steps.slice(0, -1) }),
    "start over": (set) => set({ steps: [] }),
  };
  const verbs = { fetch: "fetches", lag: "falls behind", kill: "is killed", wreck: "is wrecked", restart: "restarts" };
  for (const [verb, words] of Object.entries(verbs)) for (const name of BROKERS) buttons[`${name} ${words}`] = step(`${verb} ${name}`);
  return kit.figure({ model, el }, {
    names: ["acks", "min_isr", "unclean", "steps"],
    controls: [
      { name: "acks", label: "acks", options: { 0: "0: nobody is asked", 1: "1: the leader", all: "all in-sync replicas" } },
      { name: "min_isr", label: "min.insync.replicas", values: [1, 2, 3] },
      { name: "unclean", label: "unclean elections allowed" },
    ],
    buttons,
    hint: "A killed broker keeps its log, a wrecked one does not. A button does nothing while its step cannot happen.",
    draw(state, view) {
      const now = played(setting(state), state.steps);
      const [svg, height] = picture(now, view.width);
      view.paint(svg, height);
      const of = (told) => now.said.flatMap((each, at) => (each === told ? [at + 1] : [])).join(", ") || "-";
      view.table(["messages", "numbers"], [["acknowledged", of("acknowledged")], ["refused", of("refused")], ["not answered", of("waits")], ["acknowledged and lost", now.lost.join(", ") || "-"]], now.lost.length ? 3 : -1);
      view.say(`${now.note ? `${/^b\d/.test(now.note) ? now.note : now.note[0].toUpperCase() + now.note.slice(1)}. ` : ""}${now.lost.length ? `The producer was told that ${now.lost.join(", ")} ${now.lost.length > 1 ? "are" : "is"} stored. The leader does not have ${now.lost.length > 1 ? "them" : "it"}.` : ""}`);
    },
  });
}

export default { render };
