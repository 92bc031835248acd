"""Pictures in a terminal: as pixels where it can show them (kitty's protocol, or sixels), else in its cells."""

from __future__ import annotations

import io
import math
import os
import sys
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any
from xml.etree import ElementTree

from rich.console import Console, RenderableType

_LEAST = 0.55  # of a picture's own size, in pixels: letters of 11 pixels can still be read
_MOST = 2.0


@dataclass(frozen=True)
class Pictures:
    """How a terminal shows pictures: `image` makes what rich prints of one, of so many columns and rows of `cell`."""

    console: Console
    image: Callable[..., Any] | None = None
    cell: tuple[int, int] = (0, 0)

    @classmethod
    def on(cls, console: Console) -> Pictures:
        """Ask the terminal what it can do; nobody else may read its keyboard meanwhile."""
        if not console.is_terminal or console.color_system is None or not sys.stdin.isatty():
            return cls(console)
        sixel, tgp, cell_size = _library()
        if sixel.query_terminal_support():
            return cls(console, sixel.Image, cell_size())
        if not _multiplexed() and tgp.query_terminal_support():
            return cls(console, tgp.Image, cell_size())
        return cls(console)

    def of(self, svg: str, rows: int) -> RenderableType | None:
        """A picture of at most so many rows; None where it could not be read, or the terminal has no colors."""
        if not self.console.is_terminal or self.console.color_system is None:
            return None
        columns = self.console.width
        if self.image is None:
            from grader.trace import cells

            return cells.text(svg, columns, rows)
        root = ElementTree.fromstring(svg)
        wide, tall = float(root.get("width", "1")), float(root.get("height", "1"))
        scale = min(columns * self.cell[0] / wide, rows * self.cell[1] / tall, _MOST)
        if scale < _LEAST:
            return None
        import resvg_py

        from grader.trace import dark

        png = resvg_py.svg_to_bytes(svg_string=dark.svg(svg), zoom=scale)
        size = (max(1, int(scale * pixels / cell)) for pixels, cell in zip((wide, tall), self.cell, strict=True))
        return self.image(io.BytesIO(png), *size)  # type: ignore[no-any-return]

    def least(self, svg: str) -> int:
        """How many columns a picture needs."""
        from grader.trace import cells

        wide = float(ElementTree.fromstring(svg).get("width", "1"))
        return cells.least(svg) if self.image is None else math.ceil(wide * _LEAST / self.cell[0])


def _multiplexed() -> bool:
    """Whether tmux or screen is between: what kitty is asked would become a window's title."""
    return "TMUX" in os.environ or os.environ.get("TERM", "").startswith(("screen", "tmux"))


def _library() -> tuple[Any, Any, Callable[[], tuple[int, int]]]:
    """textual-image's modules for sixels and kitty's protocol. It asks on its own when it is imported, and asks the
    terminal that Python began with."""
    streams = sys.stdin, sys.stdout
    setattr(sys, "__stdout__", None)  # noqa: B010 - constants to a type checker
    from textual_image._terminal import get_cell_size
    from textual_image.renderable import sixel, tgp

    for name, stream in zip(("__stdin__", "__stdout__"), streams, strict=True):
        setattr(sys, name, stream)
    return sixel, tgp, get_cell_size
