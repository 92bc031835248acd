// Plays and steps the pictures of runs: each that carries <metadata> gets buttons, a slider, and what every rank does.
"use strict";
(() => {
  const NS = "http://www.w3.org/2000/svg", STEP_MS = 700;
  const element = (name, text, parent) => {
    const made = document.createElement(name);
    made.textContent = text; // never as HTML: words may be a learner's
    parent.append(made);
    return made;
  };

  function equip(svg, run) {
    const line = document.createElementNS(NS, "path");
    for (const [name, value] of [["stroke", "#c81e1e"], ["stroke-width", "1.5"], ["opacity", "0.8"], ["fill", "none"]]) {
      line.setAttribute(name, value);
    }
    line.style.pointerEvents = "none";
    line.style.display = "none";
    svg.append(line);
    const wide = svg.viewBox.baseVal.width;
    const panel = document.createElement("div");
    panel.className = "player";
    panel.style.cssText = "font:13px/1.5 system-ui,sans-serif;margin:6px 2px;max-width:" + Math.max(wide, 420) + "px";
    const bar = element("div", "", panel);
    bar.style.cssText = "display:flex;gap:6px;align-items:center";
    const button = (text, label) => {
      const made = element("button", text, bar);
      made.type = "button";
      made.title = label;
      made.setAttribute("aria-label", label);
      return made;
    };
    const back = button("◀", "one step back"), play = button("play", "play from here"), on = button("▶", "one step on");
    const slider = element("input", "", bar);
    slider.type = "range";
    slider.min = 0;
    slider.max = run.times.length - 1;
    slider.value = 0;
    slider.style.flex = "1";
    slider.setAttribute("aria-label", "moment of the run");
    const when = element("output", "", bar);
    when.style.cssText = "min-width:7em;font-variant-numeric:tabular-nums";
    const list = element("dl", "", panel);
    list.style.cssText = "display:grid;grid-template-columns:max-content 1fr;gap:0 12px;margin:6px 0;min-height:1.5em";
    let timer = 0;

    function show(at) {
      slider.value = at;
      when.textContent = run.times[at];
      slider.setAttribute("aria-valuetext", run.times[at]);
      line.setAttribute("d", run.lines[at]);
      line.style.display = "";
      list.replaceChildren();
      for (const [name, changes] of run.rows) {
        const plain = "float:none;width:auto;margin:0;white-space:nowrap;font-weight:400;"; // notebooks style lists
        element("dt", name, list).style.cssText = plain + "opacity:0.7";
        const now = changes.filter(([from]) => from <= at).at(-1);
        const value = element("dd", now[1], list);
        const weight = now[0] === at && at > 0 ? 600 : 400; // it has just changed
        value.style.cssText = `${plain}white-space:normal;font-weight:${weight}`;
      }
    }
    function stop() {
      clearInterval(timer);
      timer = 0;
      play.textContent = "play";
    }
    function step(by) {
      const at = Math.min(Math.max(Number(slider.value) + by, 0), run.times.length - 1);
      show(at);
      if (at === run.times.length - 1) stop();
    }
    back.onclick = () => { stop(); step(-1); };
    on.onclick = () => { stop(); step(1); };
    slider.oninput = () => { stop(); show(Number(slider.value)); };
    play.onclick = () => {
      if (timer) return stop();
      if (Number(slider.value) === run.times.length - 1) show(0);
      play.textContent = "pause";
      timer = setInterval(() => (svg.isConnected ? step(1) : stop()), STEP_MS);
      return undefined;
    };
    svg.after(panel);
  }

  for (const svg of document.querySelectorAll("svg")) {
    const data = svg.querySelector(":scope > metadata");
    if (!data) continue;
    const run = JSON.parse(data.textContent);
    data.remove();
    equip(svg, run);
  }
})();
