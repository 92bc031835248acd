// A question before a cell is run: options to choose from by click or by key 1-9, or a number to type.
function render({ model, el }) {
  const card = model.get("card");
  const make = (tag, parent, html = "", kind = "") => {
    const made = document.createElement(tag);
    made.innerHTML = html; // from a deck, in which HTML is text
    made.className = kind;
    parent.append(made);
    return made;
  };
  el.dataset.lmSuppressShortcuts = "true"; // JupyterLab's keys are not meant here
  const box = make("section", el, "", "rankup-ask");
  make("style", box, STYLE);
  make("p", box, "Predict, then run the next cell.", "lead");
  make("div", box, card.question);
  const answers = make("div", box, "", "answers"), said = make("div", box, "", "said");
  said.setAttribute("role", "status");

  function give(given, right) {
    if (model.get("given") !== null) return;
    model.set("given", given);
    model.set("true", right);
    model.save_changes();
    update();
  }

  const buttons = card.options.map((option, at) => {
    const button = make("button", answers, `<kbd>${at + 1}</kbd> ${option.text}`);
    button.type = "button";
    button.onclick = () => give(at, option.right);
    return button;
  });
  box.onkeydown = (event) => {
    event.stopPropagation(); // JupyterLab takes Enter from a form
    if (event.key === "Enter" && event.target === field) field.form.requestSubmit();
    const button = buttons[Number(event.key) - 1];
    if (button && !event.ctrlKey && !event.metaKey && !event.altKey) button.click();
  };
  let field = null;
  if (card.number) {
    const form = make("form", answers);
    field = make("input", form);
    field.inputMode = "decimal";
    field.setAttribute("aria-label", "your prediction");
    make("span", form, card.number.unit === "1" ? "" : ` ${card.number.unit} `);
    make("button", form, "Predict");
    form.onsubmit = (event) => {
      event.preventDefault();
      const typed = value(field.value, card.number.unit);
      if (typed === null) {
        said.textContent = card.number.unit === "1" ? "Type a number." : `Type a number of ${card.number.unit}.`;
        return;
      }
      const { value: right, tolerance } = card.number;
      give(field.value.trim(), Math.abs(typed - right) <= Math.max(tolerance * Math.abs(right), 1e-12));
    };
  }

  function update() {
    const given = model.get("given"), shown = model.get("shown");
    if (given === null) return;
    for (const [at, button] of buttons.entries()) {
      button.disabled = true;
      button.classList.toggle("given", at === given);
      button.classList.toggle("right", shown && card.options[at].right);
    }
    if (field) for (const each of field.form.elements) each.disabled = true;
    said.replaceChildren();
    if (!shown) {
      make("span", said, "Now run the next cell. ");
      const now = make("button", said, "Explain now", "link");
      now.type = "button";
      now.onclick = () => { model.set("shown", true); model.save_changes(); update(); };
      return;
    }
    make("p", said, model.get("true") ? "<b>As you predicted.</b>" : "<b>Not as you predicted.</b>");
    if (!model.get("true") && buttons.length) make("div", said, card.options[given].why);
    if (card.number) make("p", said, `It is ${card.number.value.toLocaleString("en-US")}${card.number.unit === "1" ? "" : ` ${card.number.unit}`}.`);
    make("div", said, card.why);
    if (!model.get("true") && model.get("kept")) make("p", said, "<code>rankup quiz</code> will ask this again.");
  }

  model.on("change:shown", update);
  model.on("change:kept", update);
  update();
}

// A number as people type it: 1,024 or 33 % or 2*3/4; null for anything else. What stands behind it must be the unit.
function value(text, unit) {
  let rest = text.trim().replace(/^[~≈]/, "").replace(/(\d),(?=\d{3}(\D|$))/g, "$1");
  if (unit !== "1" && rest.toLowerCase().endsWith(unit.toLowerCase())) rest = rest.slice(0, -unit.length);
  const percent = rest.trim().endsWith("%");
  const parts = rest.replace("%", "").split(/([*x×/])/).map((part) => part.trim());
  let found = percent && unit !== "%" ? 0.01 : 1;
  for (let at = 0; at < parts.length; at += 2) {
    const number = parts[at] === "" ? NaN : Number(parts[at]);
    found = at && parts[at - 1] === "/" ? found / number : found * number;
  }
  return Number.isFinite(found) ? found : null;
}

const STYLE = `
.rankup-ask { border-left: 4px solid #7b4ea3; padding: 2px 14px; margin: 6px 0; max-width: 46em; font: 14px/1.5 system-ui, sans-serif; }
.rankup-ask .lead { font-weight: 600; color: #7b4ea3; margin: 4px 0; }
.rankup-ask .answers { display: flex; flex-direction: column; gap: 6px; align-items: flex-start; margin: 8px 0; }
.rankup-ask button { font: inherit; color: inherit; text-align: left; background: transparent; border: 1px solid #8b96a3; border-radius: 6px; padding: 4px 10px; cursor: pointer; }
.rankup-ask button:focus-visible, .rankup-ask input:focus-visible { outline: 2px solid #7b4ea3; outline-offset: 1px; }
.rankup-ask button:disabled { cursor: default; opacity: 0.75; }
.rankup-ask button.given { border-width: 2px; border-color: #7b4ea3; opacity: 1; }
.rankup-ask button.right { border-color: #009e73; background: #009e7322; opacity: 1; }
.rankup-ask button.link { border: 0; padding: 0; text-decoration: underline; }
.rankup-ask kbd { opacity: 0.6; font: 11px monospace; margin-right: 4px; }
.rankup-ask input { font: inherit; width: 9em; padding: 3px 6px; }
.rankup-ask p { margin: 4px 0; }
:is([data-jp-theme-light=false], .vscode-dark, [data-theme=dark]) .rankup-ask .lead { color: #b993dc; }
`;

export default { render };
