// Makes the widgets of a page move without a kernel: what a cell showed is a module's name, and its state when it ran.
"use strict";
window.rankupWidgets = {};
document.addEventListener("DOMContentLoaded", () => {
  for (const place of document.querySelectorAll(".rankup-widget")) {
    const module = window.rankupWidgets[place.dataset.module];
    if (!module) continue;
    const state = JSON.parse(place.querySelector("template").content.textContent);
    const heard = {};
    const model = {
      get: (name) => state[name],
      set(name, value) {
        state[name] = value;
        for (const each of heard[`change:${name}`] ?? []) each();
      },
      on: (event, handler) => (heard[event] ??= []).push(handler),
      off: () => {},
      save_changes: () => {},
    };
    place.replaceChildren();
    module.render({ model, el: place });
    if (place.dataset.module === "predict") veil(place, model);
  }
});

// What the next cell showed stays hidden until there is a prediction, or the reader asks for it.
function veil(place, model) {
  const cell = place.closest(".cell");
  let next = cell?.nextElementSibling;
  while (next && !next.matches(".cell")) next = next.nextElementSibling;
  const output = next?.querySelector(".cell_output");
  if (!output) return;
  const button = document.createElement("button");
  button.textContent = "Show what came out";
  button.className = "veil";
  output.before(button);
  output.hidden = true;
  const open = () => {
    output.hidden = false;
    button.remove();
    if (model.get("given") !== null && !model.get("shown")) model.set("shown", true);
  };
  button.onclick = open;
  model.on("change:given", open);
}
