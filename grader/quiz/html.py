"""Cards as HTML: the two sides of one, for programs that show pages."""

from __future__ import annotations

import random
import re
from html import escape
from pathlib import Path, PurePosixPath

from markdown_it import MarkdownIt

from grader.quiz.deck import Card

_MARKDOWN = MarkdownIt("commonmark", {"html": False, "breaks": True}).enable("table")
_CODE = re.compile(r"(<pre><code[^>]*>)(.*?)(</code></pre>)", re.DOTALL)
_OPEN, _CLOSE = "\ue000", "\ue001"  # stand for the braces of a cloze while Markdown is rendered
_PART = re.compile(f"{_OPEN}(.*?){_CLOSE}", re.DOTALL)

CSS = Path(__file__).with_name("cards.css").read_text()


def rendered(markdown: str) -> str:
    """Markdown as HTML, with tables; a line's end stays one, and HTML is shown as text."""
    return str(_MARKDOWN.render(markdown)).strip()


def picture_name(card: Card) -> str:
    """What the picture of a card is called beside the page, where pictures of others may lie too."""
    return f"rankup-{PurePosixPath(card.picture).name}"


def front(card: Card) -> str:
    """What is asked, with what belongs to the kind: options, steps, numbered lines, the picture, the unit.

    Options and steps are shuffled, for each card always in the same way.
    """
    html = rendered(card.question)
    match card.kind:
        case "choice":
            several = sum(option.right for option in card.options) > 1
            texts = random.Random(card.id).sample([option.text for option in card.options], len(card.options))
            items = "".join(f"<li>{inline(text)}</li>" for text in texts)
            html += f'\n<ul class="options">{items}</ul>'
            html += '\n<p class="hint">Several are right.</p>' if several else ""
        case "order":
            items = "".join(f"<li>{inline(step)}</li>" for step in shuffled(card))
            html += f'\n<p class="hint">Put these in order:</p>\n<ul class="steps">{items}</ul>'
        case "bug":
            html = _CODE.sub(lambda found: f"{found[1]}{_numbered(found[2])}{found[3]}", html, count=1)
            html += '\n<p class="hint">Also say why, and how to fix it.</p>'
        case "diagram":
            html += f'\n<p><img src="{escape(picture_name(card))}" alt="{escape(card.alt)}"></p>'
        case "number":
            assert card.number is not None
            unit = "A number" if card.number.unit == "1" else f"In {escape(card.number.unit)}"
            within = f"within {card.number.tolerance * 100:g} %" if card.number.tolerance else "exactly"
            html += f'\n<p class="hint">{unit}, {within}.</p>'
    return html


def back(card: Card) -> str:
    """What is shown after it."""
    html = rendered(card.explanation if card.kind == "cloze" else card.answer)
    if card.number is not None:
        html = f'<p class="number">{card.number.value:g} {escape(card.number.unit)}</p>\n{html}'
    return html


def cloze(card: Card) -> str:
    """The text of a cloze as Anki writes it. All parts are hidden together: a card here is one card there."""
    html = rendered(card.cloze.replace("{{", _OPEN).replace("}}", _CLOSE))

    def part(found: re.Match[str]) -> str:
        inner = found[1].strip().replace("::", "&#58;&#58;").replace("}}", "}&#125;")
        return f"{{{{c1::{inner}}}}}"

    return _PART.sub(part, html)


def shuffled(card: Card) -> list[str]:
    """The steps of an order in another order, the same one each time."""
    steps = list(card.steps)
    chance = random.Random(card.id)
    while steps == list(card.steps):
        chance.shuffle(steps)
    return steps


def inline(markdown: str) -> str:
    """The same for part of a line."""
    return str(_MARKDOWN.renderInline(markdown))


def _numbered(code: str) -> str:
    lines = code.removesuffix("\n").split("\n")
    width = len(str(len(lines)))
    return "".join(f'<span class="line">{at:>{width}} </span> {line}\n' for at, line in enumerate(lines, start=1))
