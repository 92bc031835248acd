"""What a learner's notebook shows, for a page that others open: pictures, tables and text, but nothing that acts.

nbgrader's pages render Markdown cells and outputs as they are; nbgrader_config.py puts these filters in between, for
feedback and for formgrader, where whoever looks is signed in as the teacher.
"""

from __future__ import annotations

import re

import bleach  # type: ignore[import-untyped]
from bleach.css_sanitizer import CSSSanitizer  # type: ignore[import-untyped]

_SVG = ("svg", "defs", "pattern", "rect", "path", "text", "tspan", "g", "circle", "ellipse", "line", "polygon",
        "polyline", "title", "desc", "marker", "clipPath")  # fmt: skip
_TAGS = (*bleach.ALLOWED_TAGS, *_SVG, "div", "span", "p", "br", "hr", "h1", "h2", "h3", "h4", "h5", "h6", "pre", "del",
         "table", "thead", "tbody", "tfoot", "tr", "th", "td", "caption", "details", "summary", "sub", "sup", "img",
         "dl", "dt", "dd", "u", "s", "small", "kbd", "samp", "var")  # fmt: skip
_DRAWN = ("aria-label", "role", "xmlns", "viewBox", "width", "height", "x", "y", "x1", "y1", "x2", "y2", "cx", "cy",
          "r", "rx", "ry", "d", "dx", "dy", "points", "transform", "fill", "fill-opacity", "stroke", "stroke-width",
          "stroke-dasharray", "stroke-linejoin", "stroke-linecap", "stroke-opacity", "opacity", "font-family",
          "font-size", "font-weight", "font-style", "text-anchor", "dominant-baseline", "paint-order",
          "patternTransform", "patternUnits", "markerWidth", "markerHeight", "markerUnits", "orient", "refX", "refY",
          "marker-end", "marker-start", "clip-path")  # fmt: skip
_ATTRIBUTES = {
    **bleach.ALLOWED_ATTRIBUTES,
    "*": ["class", "id", "style", "title", "align", "colspan", "rowspan", *_DRAWN],
    "a": ["href", "title", "name"],
    "img": ["src", "alt", "title", "width", "height"],
    "details": ["open"],
}
_STYLES = CSSSanitizer(
    allowed_css_properties=("background", "background-color", "border", "border-left", "color", "font-family",
                            "font-size", "font-weight", "font-style", "margin", "padding", "text-align", "max-width")
)  # fmt: skip
_INVISIBLE = re.compile(r"<(style|script)\b.*?</\1\s*>", re.DOTALL | re.IGNORECASE)
_LINK = re.compile(r"(?i)(https?://|mailto:|#|[a-z0-9_./-]*\Z)")
_PICTURE = re.compile(r"(?i)data:image/(png|jpeg|gif);base64,[a-z0-9+/=\s]*\Z")


def html(text: object) -> str:
    """A fragment of HTML without scripts, forms, frames, foreign pictures or styles that cover the page."""
    shown = _INVISIBLE.sub("", text.decode(errors="replace") if isinstance(text, bytes) else str(text))
    protocols = [*bleach.ALLOWED_PROTOCOLS, "data"]
    return str(bleach.clean(shown, _TAGS, _allowed, protocols, strip=True, css_sanitizer=_STYLES))


def markdown(text: str) -> str:
    """The HTML of a Markdown cell, cleaned; takes the place of nbconvert's filter that comes after Markdown."""
    from nbconvert.filters import strip_files_prefix

    return html(strip_files_prefix(text))


def _allowed(tag: str, name: str, value: str) -> bool:
    if name not in _ATTRIBUTES["*"] and name not in _ATTRIBUTES.get(tag, ()):
        return False
    if name == "src":  # no picture from elsewhere: it would tell who looks, and when
        return bool(_PICTURE.match(value.strip()))
    if name == "href":
        return bool(_LINK.match(value))
    return name != "style" or not any(mark in value.lower() for mark in ("url", "\\", "/*"))
