"""An interview in plain lines: through pipes, on a simple terminal, or where somebody likes it better."""

from __future__ import annotations

import sys
from collections.abc import Callable

from rich.console import Console
from rich.markdown import Markdown
from rich.rule import Rule
from rich.text import Text

from grader.quiz.interview.conduct import (
    HINT,
    QUIT,
    SKIP,
    Follow,
    Leave,
    Place,
    Rate,
    Reply,
    Step,
    Talk,
    Work,
    Worked,
    Write,
)
from grader.quiz.interview.report import clock as minutes

Read = Callable[[str], str]
_RATINGS = {"0": 0.0, "1": 0.5, "2": 1.0}


def hold(talk: Talk, console: Console, read: Read) -> None:
    """Hold an interview. `read` shows a prompt and returns a line; EOFError and Ctrl-C end it as `q` does."""
    lines = _Lines(console, read)
    step = talk.start()
    while step is not None:
        try:
            reply = lines.show(step)
        except (EOFError, KeyboardInterrupt):
            console.print()
            reply = QUIT
        step = talk.reply(reply)


def read_line(prompt: str) -> str:
    """One line of the terminal, or of whatever is stdin. Raises EOFError where nobody types any more."""
    if sys.stdin is None:
        raise EOFError
    try:
        typed = input(prompt)
    except OSError:  # the terminal is gone
        raise EOFError from None
    if not sys.stdin.isatty():
        print()  # nobody pressed Enter on the screen
    return typed


class _Lines:
    def __init__(self, console: Console, read: Read) -> None:
        self._console, self._read = console, read
        self._task = ""  # whose prompt was shown last
        self._hints = 0

    def show(self, step: Step) -> Reply:
        """Show a step and return what the learner does with it."""
        self._begin(step.place)
        match step:
            case Work():
                return self._work(step)
            case Worked():
                return self._worked(step)
            case Write():
                return self._write(step)
            case Rate():
                return self._rate(step)
            case Follow():
                return self._follow(step)

    def _begin(self, place: Place) -> None:
        task = place.task
        if task.id == self._task:
            return
        self._task, self._hints = task.id, 0
        name = f"{task.round}: {task.title}" if task.round else f"{task.topic} ({task.level})"
        self._console.print(Rule(Text(f"{place.at} of {place.of}  {name}  {task.minutes:g} minutes"), align="left"))
        self._markdown(task.prompt)

    def _work(self, step: Work) -> Reply:
        if step.said:
            self._say(step.said, "yellow")
        elif len(step.hints) == self._hints:
            self._say(f"Number {step.at} of {step.of}", "bold")
            self._markdown(step.estimate.question)
        self._hint(step.hints, step.place)
        while True:
            typed = self._line(f"In {step.estimate.unit} ({self._keys(step.place)}; Enter if you do not know): ")
            if typed.lower() == "q":
                return QUIT
            if typed.lower() == "s":
                return SKIP
            if typed.lower() == "h" and self._may_hint(step.place):
                return HINT
            if typed != "?":
                return typed

    def _worked(self, step: Worked) -> Reply:
        guess = step.guess
        said = {1.0: "Right", 0.5: "Right at the second try, half a point"}.get(guess.earned, "Not found")
        self._say(f"{said}: it is {guess.right}.", "green" if guess.earned else "red")
        self._markdown(step.estimate.explanation)
        return None

    def _write(self, step: Write) -> Reply:
        shown = len(step.hints) > self._hints
        self._hint(step.hints, step.place)
        if not shown:
            task, whole = step.place.left(0)
            self._say(f"{_left(task)} for this, {_left(whole)} in all.", "dim")
        self._say(
            f"Write your answer; a line with a single . ends it ({self._keys(step.place)}, alone on a first line)."
        )
        text: list[str] = []
        while True:
            try:
                line = self._line("> ", strip=False)
            except (EOFError, KeyboardInterrupt):
                self._console.print()
                return Leave("\n".join(text))
            word = line.strip().lower()
            if word == ".":
                return "\n".join(text)
            if word == "q" and not text:
                return QUIT
            if word == "s" and not text:
                return SKIP
            if word == "h" and not text and self._may_hint(step.place):
                return HINT
            text.append(line)

    def _rate(self, step: Rate) -> Reply:
        task = step.place.task
        late = step.seconds - 60 * task.minutes
        over = f", {minutes(late)} over its {task.minutes:g} minutes" if late > 0 else ""
        self._say(f"That took {minutes(step.seconds)}{over}." if not step.skipped else "Skipped.", "dim")
        self._say("What a strong candidate says", "bold")
        self._markdown(task.answer)
        if task.mistakes:
            self._say("Often said, and wrong", "bold")
            self._markdown("\n".join(f"- {mistake}" for mistake in task.mistakes))
        self._say("What an interviewer listens for", "bold")
        self._markdown("\n".join(f"{at}. {point}" for at, point in enumerate(task.points, start=1)))
        if step.skipped:
            return QUIT if self._line("Enter goes on, q quits: ").lower() == "q" else None
        while True:
            typed = self._line("Which of them did you say? Numbers, as 1 3, a for all, Enter for none (q quits): ")
            if typed.lower() == "q":
                return QUIT
            words = typed.lower().replace(",", " ").split()
            if words == ["a"]:
                return (True,) * len(task.points)
            if all(word.isdecimal() and 1 <= int(word) <= len(task.points) for word in words):
                said = {int(word) for word in words}
                return tuple(at in said for at in range(1, len(task.points) + 1))
            self._say(f"Type numbers from 1 to {len(task.points)}, with spaces between them.")

    def _follow(self, step: Follow) -> Reply:
        if not step.shown:
            self._say(f"Follow-up {step.at} of {step.of}", "bold")
            self._markdown(step.follow_up.question)
            return QUIT if self._line("Say it aloud, then Enter shows the answer (q quits): ").lower() == "q" else None
        self._markdown(step.follow_up.answer)
        while True:
            typed = self._line("0 missed it  1 partly  2 had it  q quit: ").lower()
            if typed == "q":
                return QUIT
            if typed in _RATINGS:
                return _RATINGS[typed]
            self._say("Type 0, 1 or 2.")

    def _keys(self, place: Place) -> str:
        hint = f"h hint, {place.task.hints[self._hints].cost:g} off; " if self._may_hint(place) else ""
        return f"{hint}s skips; q quits"

    def _may_hint(self, place: Place) -> bool:
        return self._hints < len(place.task.hints)

    def _hint(self, hints: tuple[str, ...], place: Place) -> None:
        for text in hints[self._hints :]:
            self._say("Hint", "bold")
            self._markdown(text)
        self._hints = max(self._hints, len(hints))

    def _line(self, prompt: str, *, strip: bool = True) -> str:
        try:
            typed = self._read(prompt)
        except UnicodeDecodeError:
            return "?"
        return typed.strip() if strip else typed.rstrip()

    def _markdown(self, text: str) -> None:
        self._console.print(Markdown(text))
        self._console.print()

    def _say(self, text: str, style: str = "") -> None:
        self._console.print(text, style=style, markup=False)


def _left(seconds: float) -> str:
    return f"{minutes(seconds)} left" if seconds >= 0 else f"{minutes(-seconds)} over"
