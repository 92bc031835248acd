"""The frame of every page: a document that loads nothing, carries its style with it, and runs only what it is given.

Pages are Jinja templates. Whatever a template shows is cleaned and escaped, unless it is Markup already.
"""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import Any

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup

from grader.classroom.pages import kinds
from grader.classroom.pages.words import clean, name, number, sentence
from grader.trace import dark

_HERE = Path(__file__).parent


def bar(share: float, tone: str = "") -> Markup:
    """A bar that is filled to `share` (0 to 1), told by the number beside it; `tone` is good, bad or mixed."""
    filled = 100 * min(max(share, 0.0), 1.0)
    inner = f'<rect width="{filled:.4g}" height="8" class="{tone}"/>' if filled else ""
    return Markup(
        '<svg class="bar" viewBox="0 0 100 8" preserveAspectRatio="none" aria-hidden="true" focusable="false">'
        f'<rect width="100" height="8" class="rail"/>{inner}</svg>'
    )


def _shown(value: Any) -> Any:
    return clean(value) if isinstance(value, str) and not isinstance(value, Markup) else value


@cache
def _templates() -> Environment:
    made = Environment(
        loader=FileSystemLoader(_HERE / "templates"), autoescape=True, finalize=_shown, undefined=StrictUndefined,
        trim_blocks=True, lstrip_blocks=True,
    )  # fmt: skip
    made.filters |= {"name": name, "number": number, "sentence": sentence, "kind_title": kinds.title}
    made.filters |= {"kind_meaning": kinds.meaning, "cut": lambda text, most: Markup.escape(clean(text, most))}
    made.globals |= {"bar": bar, "style": Markup((_HERE / "style.css").read_text("utf-8") + dark.rules())}
    return made


def render(template: str, scripts: Sequence[str] = (), **context: Any) -> str:
    """The page of a template; `title` is the document's. Of all scripts only `scripts` run in it: texts of ours."""
    hashes = [base64.b64encode(hashlib.sha256(script.encode()).digest()).decode() for script in scripts]
    runs = "".join(f" 'sha256-{each}'" for each in hashes)
    allowed = Markup(f"; script-src{runs}; connect-src 'self'") if scripts else ""
    marked = [Markup(script) for script in scripts]
    return _templates().get_template(template).render(context, scripts=marked, allowed=allowed)


def document(title: str, body: str) -> str:
    """A whole page. `title` is plain text, `body` is HTML."""
    return render("base.html", title=title, body=Markup(body))
