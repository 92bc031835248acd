"""The colours of pictures after dark: what each becomes on a dark page.

Diagrams carry their colours as attributes, made for paper. A rule of a style sheet wins over an attribute, so one rule
for each colour is all it takes. A picture with a colour that is not told here stays as it is, on a light card.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

from grader.trace import style

AFTER_DARK = {
    style.INK: "#e3e8ee",
    style.SOFT: "#a9b4c0",
    style.QUIET: "#6f7c8a",
    style.GRID: "#2c343d",
    style.PALE: "#1e242b",
    style.PAPER: "#171c22",
    style.MESSAGE: "#7db0f5",
    style.MOVING: "#1f3a5f",
    style.MOVING_EDGE: "#5b86c2",
    style.WAIT: "#e9a23b",
    style.WAIT_PALE: "#42331a",
    style.COMPUTE: "#8797aa",
    style.PASSES["B"]: "#4fb286",
    style.BAND: "#44386a",
    style.BAND_PALE: "#241f33",
    style.BAND_EDGE: "#a48bd6",
    style.BAND_INK: "#d3c4f5",
    style.BAD: "#ff7b72",
    style.BAD_PALE: "#4a2020",
    style.ODD: "#e0a458",
    "#f4f5f7": "#1e242b",  # what lasts for ever
    "#3f7fd6": "#3f7fd6",  # the heat map: moves, waits, has returned, waits for ever, gone
    "#f6b73c": "#c98f2b",
    "#eceff2": "#262d35",
    "#b7791f": "#8a5f1f",
    "#6b1111": "#ffb3ad",
    "#dbe8fa": "#1b2a40",  # the matrix, from few bytes to many: light towards dark on paper, dark towards light here
    "#b5d0f3": "#20406b",
    "#8ab4ea": "#27578f",
    "#5b94dc": "#3375c6",
    "#3375c6": "#5b94dc",
    "#17549f": "#8ab4ea",
    "#0b3570": "#cfe2fb",
    "#f6f4fb": "#1d1b26",  # the storyboard: clients and what they do
    "#7a6bb0": "#a99ade",
    "#5a4b92": "#c3b8ef",
    "#4a3c80": "#cfc6f2",
    "#e6e0f4": "#393053",
    "#9d8cc9": "#8a78bd",
    "#eef0f3": "#262c33",
    "#174a96": "#9cc3f8",  # messages, in words; those that repeat, and late ones of them
    "#b4c7e4": "#33465f",
    "#d9c3a8": "#5a4a36",
    "#e8f3ec": "#1b3325",  # what a node is from now on
    "#5aa27c": "#5aa27c",
    "#1f5a3b": "#a5dcbc",
    "#dbe9fb": "#1c2b40",  # the parts of a partition
    "#fbeecb": "#3a3018",
    "#d9efe2": "#1a3326",
    "#ebe3f6": "#2e2640",
    "#e3e7ec": "#2a3037",
    "#5b8fd0": "#5b8fd0",
    "#c99a2e": "#c99a2e",
    "#8f74c4": "#8f74c4",
    "#8b96a3": "#8b96a3",
    "#bcd3f0": "#27456b",  # whose blocks: eight requests, told apart
    "#d9c8ee": "#433363",
    "#bfe0cc": "#245038",
    "#f3d9a8": "#5c4517",
    "#c9ced6": "#414b57",
    "#f0c3cf": "#5f2c3b",
    "#b9dfe3": "#1f4d53",
    "#dfe0a6": "#4c4d1c",
    "#616e7c": "#a9b4c0",  # the plots of chapters: words and grid, lines, boxes with words on them
    "#e4e7eb": "#2c343d",
    "#0072b2": "#5bb0e6",
    "#d55e00": "#f08a3c",
    "#009e73": "#3cc79d",
    "#7b4ea3": "#b993dc",
    "#5c6b78": "#9fb0bf",
    "#f6c48c": "#7a5220",
    "#8fd3b6": "#2a6b50",
    "#dfe3e8": "#39424c",
    "#b23a00": "#f0905e",
}
_COLOUR = re.compile(r'(?:fill|stroke)="(#[0-9a-fA-F]{3,8})"')


def follows(svg: str) -> bool:
    """Whether every colour of the picture has one for dark pages."""
    return set(_COLOUR.findall(svg)) <= AFTER_DARK.keys()


def svg(svg: str) -> str:
    """The picture itself after dark; one that cannot follow stays as it is."""
    return _COLOUR.sub(lambda found: found[0].replace(found[1], AFTER_DARK[found[1]]), svg) if follows(svg) else svg


def rules() -> str:
    """The style sheet's rules for pictures, on dark screens only."""
    return f"@media screen and (prefers-color-scheme: dark) {{\n{_rules(AFTER_DARK)}}}\n"


def framed(svg: str) -> str:
    """A picture in a notebook's output: it follows the theme if it can, and is on a light card otherwise."""
    how = 'class="follows"' if follows(svg) else f'style="background:{style.PAPER};color:{style.INK}"'
    return f"<div {how}>{svg}</div>"


def in_notebooks(html: str) -> str:
    """The rules as a <style> for the pictures of an output, where JupyterLab or VS Code has a dark theme."""
    used = {*_COLOUR.findall(html), style.BAD}
    return f"<style>\n{_rules(used & AFTER_DARK.keys(), ':is([data-jp-theme-light=false], .vscode-dark) ')}</style>"


def _rules(colours: Iterable[str], scope: str = "") -> str:
    return "".join(
        f'  {scope}.follows [{what}="{light}"] {{ {what}: {AFTER_DARK[light]}; }}\n'
        for light in sorted(colours)
        for what in ("fill", "stroke")
    )
