"""What a session shows and asks for, step by step: a talk of cards or an interview is a generator of steps.

A talk knows no terminal. `plain` and `screen` show its steps, in lines and full-screen, and send it the replies:

    step = advance(steps)
    while step is not None:
        step = advance(steps, ...)      # what the learner did with it
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal


@dataclass(frozen=True)
class Text:
    """Something to read: Markdown, or plain lines in a look of their own."""

    text: str
    look: Literal["markdown", "title", "good", "bad", "dim"] = "markdown"


@dataclass(frozen=True)
class Drawn:
    """Plain lines that are drawn for a width, in columns."""

    draw: Callable[[int], list[str]]


@dataclass(frozen=True)
class Command:
    """Something to do besides answering."""

    letter: str
    label: str = ""  # where it is to be seen at the bottom of a screen
    key: str = ""  # on a screen, where letters are typed as text
    number: bool = False  # a number follows the letter, in plain lines alone
    lends: bool = False  # the terminal is another program's while it is done


@dataclass(frozen=True)
class Do:
    """The reply that is a command; `text` is what was written when it came, or its argument."""

    letter: str
    text: str = ""


@dataclass(frozen=True)
class Step:
    """One thing that is shown and asked for.

    What it asks for, and the reply, a text unless it is a command:

    - read: nothing; "" goes on.
    - line, lines: what is typed, in one line or several.
    - pick: the numbers of `items`, from 1, as "1 3"; "" if the learner knows none.
    - rate: one of `choices`; `suggested` is what Enter gives.
    - look: nothing; what it shows is beside the talk, which goes on where it was.
    - choose: the cards to be asked, on a full screen, of the `desk`.
    """

    title: str
    page: tuple[Text | Drawn, ...]
    asks: Literal["read", "line", "lines", "pick", "rate", "look", "choose"] = "read"
    prompt: str = ""  # in plain lines
    hint: str = ""  # what to do, on a full screen
    items: tuple[str, ...] = ()
    how: Literal["one", "many", "order"] = "many"  # `items` are picked
    choices: Mapping[str, str] = field(default_factory=dict)
    suggested: str = ""
    commands: tuple[Command, ...] = ()
    said: str = ""  # about what was typed last
    mine: str = ""  # the learner's own text, to be seen beside the page
    left: Callable[[], tuple[float, float]] | None = None  # seconds for this and in all; below 0 when late
    paused: bool = False  # the clock stands
    desk: Any = None


Reply = str | Do
Steps = Generator[Step, Reply | None, None]


class QuitError(Exception):
    """The learner left; the message is what was written when they did."""


def advance(steps: Steps, reply: Reply | None = None) -> Step | None:
    """The step after this reply, the first one where there is none yet; None at the end."""
    try:
        return steps.send(reply)
    except StopIteration:
        return None


def minutes(seconds: float) -> str:
    """Minutes and seconds, as 3:05."""
    return f"{int(seconds) // 60}:{int(seconds) % 60:02d}"


def time_left(step: Step) -> str:
    """What the clocks of a step say."""
    if step.left is None:
        return ""
    task, whole = (f"{minutes(abs(each))} {'left' if each >= 0 else 'over'}" for each in step.left())
    return f"{task} for this, {whole} in total{', paused' if step.paused else ''}"
