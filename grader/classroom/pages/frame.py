"""The frame of every page: a document that loads nothing, runs nothing, and carries its style with it."""

from __future__ import annotations

from functools import cache
from importlib import resources

from grader.classroom.pages.words import safe
from grader.trace import dark

_POLICY = "default-src 'none'; style-src 'unsafe-inline'; img-src data:; base-uri 'none'; form-action 'none'"


def document(title: str, body: str) -> str:
    """A whole page. `title` is plain text, `body` is HTML."""
    return (
        '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        f'<meta http-equiv="Content-Security-Policy" content="{_POLICY}">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        '<meta name="color-scheme" content="light dark">\n<meta name="referrer" content="no-referrer">\n'
        f"<title>{safe(title, 300)}</title>\n<style>\n{_style()}</style>\n</head>\n"
        f"<body>\n<main>\n{body}\n</main>\n</body>\n</html>\n"
    )


@cache
def _style() -> str:
    own = resources.files("grader.classroom.pages").joinpath("style.css").read_text("utf-8")
    return f"{own}{dark.rules()}"


def bar(share: float, tone: str = "") -> str:
    """A bar that is filled to `share` (0 to 1), told by the number beside it; `tone` is good, bad or mixed."""
    filled = 100 * min(max(share, 0.0), 1.0)
    inner = f'<rect width="{filled:.4g}" height="8" class="{tone}"/>' if filled else ""
    return (
        '<svg class="bar" viewBox="0 0 100 8" preserveAspectRatio="none" aria-hidden="true" focusable="false">'
        f'<rect width="100" height="8" class="rail"/>{inner}</svg>'
    )
