"""A session in plain lines: through pipes, on a simple terminal, or where somebody likes it better."""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from rich.console import Console
from rich.markdown import Markdown
from rich.rule import Rule
from rich.text import Text as Line

from grader.quiz.steps import Do, Drawn, Reply, Step, Steps, Text, advance, time_left

Read = Callable[[str], str]  # shows a prompt and returns a line; raises EOFError where nobody types any more

_STYLES = {"title": "bold", "good": "green", "bad": "red", "dim": "dim"}


def read_line(prompt: str) -> str:
    """One line of the terminal, or of whatever is stdin."""
    if sys.stdin is None:  # closed by whoever started us
        raise EOFError
    try:
        typed = input(prompt)
    except OSError:  # the terminal is gone
        raise EOFError from None
    if not sys.stdin.isatty():
        print()  # nobody pressed Enter on the screen
    return typed


def hold(steps: Steps, console: Console, read: Read) -> None:
    """Show the steps to their end. The end of the input and Ctrl-C leave, as `q` does."""
    lines = _Lines(console, read)
    step = advance(steps)
    while step is not None:
        try:
            reply = lines.show(step)
        except (EOFError, KeyboardInterrupt):
            console.print()
            reply = Do("q", "\n".join(lines.text))
        step = advance(steps, reply)


class _Lines:
    def __init__(self, console: Console, read: Read) -> None:
        self._console, self._read = console, read
        self._last = Step("", ())
        self.text: list[str] = []  # what was written of an answer in several lines

    def show(self, step: Step) -> Reply:
        """Show what is new in a step, and return what the learner does with it."""
        last, self.text = self._last, []
        same = step.title == last.title
        if step.asks == "look" and not same:
            self._blocks(step.page)
            return ""
        if step.said:
            self._console.print(step.said, markup=False)
        if not same:
            self._console.print(Rule(Line(step.title), align="left"))
        pairs = zip(step.page, last.page, strict=False) if same else ()
        known = next((at for at, (one, other) in enumerate(pairs) if one != other), min(len(step.page), len(last.page)))
        self._blocks(step.page[known if same else 0 :])
        if step.items and not (same and step.items == last.items):
            self._blocks([Text(f"{place}. {item}") for place, item in enumerate(step.items, start=1)])
        self._last = step
        if step.asks == "look":
            return ""
        return self._several(step) if step.asks == "lines" else self._one(step)

    def _one(self, step: Step) -> Reply:
        while True:
            with _bell(step):
                typed = self._typed(step.prompt).strip()
            if (command := _command(step, typed)) is not None:
                return command
            if step.asks != "rate" or typed in step.choices:
                return typed
            if not typed and step.suggested:
                return step.suggested
            *others, last = step.choices
            self._console.print(f"Type {', '.join(others)} or {last}.", markup=False)

    def _several(self, step: Step) -> Reply:
        self._console.print(f"{time_left(step)}.", style="dim", markup=False)
        self._console.print(step.prompt, markup=False)
        while True:
            with _bell(step):
                line = self._typed("> ").rstrip()
            if line.strip() == ".":
                return "\n".join(self.text)
            if not self.text and (command := _command(step, line.strip())) is not None:
                return command
            self.text.append(line)

    def _typed(self, prompt: str) -> str:
        try:
            return self._read(prompt)
        except UnicodeDecodeError:
            return "\ufffd"

    def _blocks(self, blocks: tuple[Text | Drawn, ...] | list[Text]) -> None:
        for block in blocks:
            if isinstance(block, Drawn):
                for line in block.draw(min(self._console.width, 100)):
                    self._console.print(line, markup=False)
            elif block.look == "markdown":
                self._console.print(Markdown(block.text))
                self._console.print()
            else:
                self._console.print(block.text, style=_STYLES[block.look], markup=False)


@contextmanager
def _bell(step: Step) -> Iterator[None]:
    """Rings the terminal's bell if the time for a step runs out meanwhile."""
    left = step.left()[0] if step.left and not step.paused and sys.stdout and sys.stdout.isatty() else -1.0
    timer = threading.Timer(left, lambda: print("\a", end="", flush=True))
    timer.daemon = True
    if left >= 0:
        timer.start()
    try:
        yield
    finally:
        timer.cancel()


def _command(step: Step, typed: str) -> Do | None:
    letter, _, argument = typed.lower().partition(" ")
    for command in step.commands:
        if letter == command.letter and (argument.strip().isdecimal() if command.number else not argument):
            return Do(letter, argument.strip())
    return None
