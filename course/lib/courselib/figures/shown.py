"""A figure as a cell shows it: the widget, and what stands there on paper."""

from __future__ import annotations

from html import escape
from typing import Any

from courselib.svg import Plot
from courselib.widget import widget


def figure(module: str, still: Plot, *, question: str, answer: str, **state: Any) -> Any:
    """The widget of `widgets/MODULE.js` with this state, below it a question that the figure answers (plain text)."""
    below = f"<p><b>{escape(question)}</b></p><details><summary>Answer</summary><p>{escape(answer)}</p></details>"
    texts = {"title": still.title, "question": question, "answer": answer}
    return widget(module, still.svg + below, **texts, **state)
