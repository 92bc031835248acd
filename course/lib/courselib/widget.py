"""What a reader can move: a widget of JupyterLab and VS Code by anywidget, and the same on a page without a kernel.

`widgets/NAME.js` has `render({ model, el })` and ends with `export default { render };`. Its state are plain values, by
their names: with a kernel both sides share them, on a page they are what the kernel had when the cell was run. A module
imports nothing. What modules share is `kit`, of `widgets/shared/kit.js`: that text stands before theirs.
"""

from __future__ import annotations

import functools
import json
from html import escape
from pathlib import Path
from typing import Any

import anywidget
import traitlets

from courselib import svg
from grader.trace import dark

FOLDER = Path(__file__).with_name("widgets")


class Widget(anywidget.AnyWidget):
    """Shown by `widgets/NAME.js`; `still` is what is shown where no script runs: HTML, such as an SVG."""

    module = ""
    still = ""

    def _repr_mimebundle_(self, **options: Any) -> Any:
        shown = super()._repr_mimebundle_(**options)
        bundle, metadata = shown if isinstance(shown, tuple) else (shown or {}, {})
        return {**bundle, "text/html": self.page_html()}, metadata

    def page_html(self) -> str:
        """For pages: the state, which a script of the page makes a widget of, and what stands there without one."""
        state = {name: getattr(self, name) for name in self.trait_names(shared=True)}
        data = escape(json.dumps(state, ensure_ascii=False), quote=False)
        return (
            f'<div class="rankup-widget" data-module="{self.module}"><template>{data}</template>'
            f'<div class="still">{self.still}</div></div>'
        )


@functools.cache
def shared() -> str:
    """The text of `kit`, with the colours of all other pictures, by day and after dark."""
    colours = {"ink": svg.INK, "faint": svg.FAINT, "grid": svg.GRID, "paper": svg.PAPER}
    colours |= {f"c{at}": colour for at, colour in enumerate(svg.COLOURS)}
    for at, (fill, ink) in enumerate(svg.FILLS):
        colours |= {f"f{at}": fill, f"f{at}i": ink}
    day, night = (
        " ".join(f"--{name}: {colour};" for name, colour in palette.items())
        for palette in (colours, {name: dark.AFTER_DARK[colour] for name, colour in colours.items()})
    )
    after_dark = f":is([data-jp-theme-light=false], .vscode-dark, [data-theme=dark]) .rankup-figure {{ {night} }}"
    text = (FOLDER / "shared" / "kit.js").read_text("utf-8")
    return text.replace("/*COLOURS*/", day).replace("/*DARK*/", after_dark)


def _module(name: str) -> str:
    text = (FOLDER / f"{name}.js").read_text("utf-8")
    return f"{shared()}\n{text}" if "kit." in text else text


@functools.cache
def _kind(module: str, names: frozenset[str]) -> type[Widget]:
    """The class of widgets of a module, with these values in its state."""
    traits = {name: traitlets.Any().tag(sync=True, shared=True) for name in names}
    return type(f"Widget_{module}", (Widget,), {"_esm": _module(module), "module": module, **traits})


def widget(module: str, still: str = "", **state: Any) -> Any:
    """A widget of `widgets/MODULE.js` with this state, of values that JSON holds. Raises FileNotFoundError."""
    if not (FOLDER / f"{module}.js").is_file():
        raise FileNotFoundError(f"no widget is called {module!r}")
    made = _kind(module, frozenset(state))(**state)
    made.still = still
    return made
