"""What a chapter has its reader predict before a cell is run: cards of its deck, marked `predict: true`.

    predict("ring-bytes")

What was predicted is explained when the next cell has run. It is remembered, and what did not come true is asked in the
quiz.
"""

from __future__ import annotations

import contextlib
import re
import sys
from datetime import UTC, datetime
from typing import Any

from courselib.widget import widget
from grader import catalog, progress
from grader.quiz import html, store
from grader.quiz.deck import Card, DeckError
from grader.quiz.parser import parse
from grader.submission import BadRequest


def predict(name: str) -> Any:
    """The card of this name, to be answered by a click or by key. Raises KeyError where no deck has such a one."""
    card = card_of(name)
    made = widget("predict", _still(card), card=_told(card), given=None, true=None, shown=False, kept=False)

    def remember(_: Any) -> None:
        made.kept = _remember(card, bool(made.true))

    made.observe(remember, "true")
    _when_next_has_run(made)
    return made


def card_of(name: str) -> Card:
    """Looks for the heading first: to read all decks takes a second."""
    heading = re.compile(rf"^## {re.escape(name)}$", re.MULTILINE)
    for path in sorted(catalog.cards().glob("*.md")):
        text = path.read_text("utf-8")
        if heading.search(text):
            for card in parse(text, path.name).cards:
                if card.id == name and card.predict:
                    return card
    raise KeyError(f"no card to be predicted is called {name!r}")


def _told(card: Card) -> dict[str, Any]:
    number = card.number
    return {
        "id": card.id,
        "question": html.rendered(card.question),
        "options": [
            {"text": html.inline(option.text), "right": option.right, "why": html.rendered(option.why)}
            for option in card.options
        ],
        "number": number and {"value": number.value, "unit": number.unit, "tolerance": number.tolerance},
        "why": html.rendered(card.explanation or card.answer),
    }  # fmt: skip


def _still(card: Card) -> str:
    """For paper, and for pages whose scripts do not run."""
    return (
        f"<p><b>Predict before you read on.</b></p>{html.front(card)}"
        f"<details><summary>Answer</summary>{html.back(card)}</details>"
    )


def _remember(card: Card, true: bool) -> bool:
    """Whether it could be: reading goes on where nothing can."""
    with contextlib.suppress(BadRequest, DeckError):
        progress.record_prediction(card.id, card.deck, true)
        if not true:
            with store.opened() as opened:
                opened.ask_soon([card.id], datetime.now(UTC))
        return True
    return False


def _when_next_has_run(made: Any) -> None:
    """Explain what was predicted once another cell has run."""
    shell = sys.modules["IPython"].get_ipython() if "IPython" in sys.modules else None
    if shell is None:
        return
    ended: list[Any] = []  # cells: the first is the one that asks

    def explain(result: Any) -> None:
        ended.append(result)
        if len(ended) > 1 and made.given is not None and result.success:
            made.shown = True
            shell.events.unregister("post_run_cell", explain)

    shell.events.register("post_run_cell", explain)
