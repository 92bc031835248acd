// Hover and keyboard for the picture of a run. Each part carries data-i, the number of its card.
"use strict";
(() => {
  const cards = JSON.parse(document.getElementById("cards").textContent);
  const picture = document.querySelector("svg.picture");
  const box = document.getElementById("card");
  const parts = [...picture.querySelectorAll(".i")];
  const byKey = new Map();
  for (const part of parts) {
    for (const key of cards[part.dataset.i].keys) {
      if (!byKey.has(key)) byKey.set(key, []);
      byKey.get(key).push(part);
    }
    for (const path of part.querySelectorAll(":scope > path")) {
      // thin lines are hard to hit: an invisible broad one beneath each
      if (path.getAttribute("fill") && path.getAttribute("fill") !== "none") continue;
      const hit = document.createElementNS("http://www.w3.org/2000/svg", "path");
      hit.setAttribute("d", path.getAttribute("d"));
      hit.setAttribute("class", "hit");
      part.prepend(hit);
    }
  }
  const inTime = [...parts].sort((a, b) => cards[a.dataset.i].since - cards[b.dataset.i].since || a.dataset.i - b.dataset.i);
  if (inTime.length) inTime[0].tabIndex = 0;

  const element = (name, text, parent) => {
    const made = document.createElement(name);
    made.textContent = text; // never as HTML: names may be a learner's
    parent.append(made);
    return made;
  };

  function show(part, x, y) {
    hide();
    const card = cards[part.dataset.i];
    const lit = new Set([part, ...card.keys.flatMap((key) => byKey.get(key))]);
    picture.classList.add("lit");
    for (const other of lit) other.classList.add("on");
    box.replaceChildren();
    box.dataset.kind = card.kind;
    element("b", card.head, box);
    const list = element("dl", "", box);
    for (const [name, value] of card.rows) {
      element("dt", name, list);
      element("dd", value, list);
    }
    for (const [who, line, code] of card.lines) {
      element("dt", who, list);
      const value = element("dd", `line ${line} `, list);
      if (code) element("code", code, value);
    }
    box.hidden = false;
    const wide = box.offsetWidth, tall = box.offsetHeight;
    box.style.left = `${Math.max(8, x + 18 + wide > innerWidth ? x - wide - 18 : x + 18)}px`;
    box.style.top = `${Math.max(8, Math.min(y + 14, innerHeight - tall - 8))}px`;
  }

  function hide() {
    box.hidden = true;
    picture.classList.remove("lit");
    for (const part of picture.querySelectorAll(".on")) part.classList.remove("on");
  }

  picture.addEventListener("mousemove", (event) => {
    const part = event.target.closest(".i");
    if (part) show(part, event.clientX, event.clientY);
    else if (!picture.contains(document.activeElement)) hide();
  });
  picture.addEventListener("mouseleave", hide);
  picture.addEventListener("focusin", (event) => {
    const part = event.target.closest(".i");
    if (!part) return;
    const place = part.getBoundingClientRect();
    show(part, place.right, place.top + place.height / 2);
  });
  picture.addEventListener("focusout", hide);
  picture.addEventListener("keydown", (event) => {
    const at = inTime.indexOf(document.activeElement);
    if (at < 0) return;
    const to = { ArrowDown: at + 1, ArrowRight: at + 1, ArrowUp: at - 1, ArrowLeft: at - 1, Home: 0,
      End: inTime.length - 1 }[event.key];
    if (event.key === "Escape") hide();
    if (to === undefined || !inTime[to]) return;
    event.preventDefault();
    inTime[at].tabIndex = -1;
    inTime[to].tabIndex = 0;
    inTime[to].focus();
    inTime[to].scrollIntoView({ block: "nearest", inline: "nearest" });
  });
})();
