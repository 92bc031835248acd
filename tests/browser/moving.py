"""Figures without a kernel: their scripts' own functions, and pages that show one."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import jupyter
from playwright.sync_api import Page, expect

from courselib import widget

sys.path.append(str(jupyter.ROOT / "site"))
import conf


def script(page: Page, module: str, call: str, *given: object) -> Any:
    """What an expression of a figure's own functions comes to; `given` is what the figure's state holds, and more."""
    text = (widget.FOLDER / f"{module}.js").read_text("utf-8").replace("export default { render };", "")
    return page.evaluate(f"(given) => {{ {widget.shared()}\n{text}\nreturn {call}; }}", given)


def state(made: Any) -> dict[str, Any]:
    return {name: getattr(made, name) for name in made.trait_names(shared=True)}


@contextmanager
def shown(page: Page, folder: Path) -> Iterator[Callable[[Any, str], Page]]:
    """To show a figure on a page without a kernel, and take its picture by day, after dark and on a narrow screen; no
    script may fail there."""
    errors: list[object] = []
    page.on("pageerror", lambda error: errors.append(error))
    conf._widgets(SimpleNamespace(outdir=folder))

    def show(made: Any, name: str) -> Page:
        (folder / "page.html").write_text(
            f'<!doctype html><meta charset="utf-8"><script src="_static/all-widgets.js"></script>{made.page_html()}'
        )
        page.goto((folder / "page.html").as_uri())
        for theme, width in (("light", 760), ("dark", 760), ("light", 360)):
            page.evaluate(f"document.documentElement.dataset.theme = '{theme}'")
            page.set_viewport_size({"width": width, "height": 800})
            expect(page.locator(".rankup-figure svg").first).to_be_visible()
            assert page.evaluate("document.documentElement.scrollWidth <= innerWidth"), f"{name} is wider than {width}"
            jupyter.picture(page, f"{name}-{theme}-{width}")
        page.set_viewport_size({"width": 760, "height": 1000})
        return page

    yield show
    assert errors == []
