"""`rankup watch`: grade a file each time it is saved, what failed last first, with everything kept warm.

It stops at the first check that fails, and shows the picture of its run where there is room. What is graded partly is
no try.
"""

from __future__ import annotations

import contextlib
import io
import os
import queue
import random
import sys
import termios
import threading
import time
import tty
from collections.abc import Callable, Container, Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import IO, Protocol, cast

import watchfiles
from rich.console import Console, RenderableType
from rich.markup import escape

from grader import progress, registry, says, submission
from grader.classroom import grading, lesson, live, own, which
from grader.classroom.pages import feedback
from grader.classroom.picture import Pictures
from grader.classroom.terminal import TerminalReport
from grader.exercise import Exercise
from grader.grading import grade
from grader.ranks.engines import Engines
from grader.submission import BadRequest, Submission
from grader.trace import moments
from grader.verdict import CheckResult, Verdict

SAVED = "saved"
KEYS = {
    "h": "hint", "n": "next check", "a": "all checks", "p": "picture", "o": "page", "x": "next exercise", "q": "quit"
}  # fmt: skip
_UNWRITTEN, _RIGHT = "hxq", "hapoxq"  # those that make sense then
_LEAST_ROWS, _MOST_ROWS = 10, 400
_MOST_PRINTED = 8  # lines of what the learner's code printed, where checks are left
_QUIT = ("q", "\x03", "\x04")
_URGENT = (SAVED, "n", "a", "x", *_QUIT)  # a grading is stopped for these; the others wait until it is done


class _Stopped(Exception):  # noqa: N818 - reads as what it is
    """Enough is known, or something else is asked for by now."""


class Events(Protocol):
    """What happens to a file: SAVED, and keys."""

    def get(self) -> str:
        """The next, waited for."""

    def urgent(self) -> bool:
        """Whether something has happened for which a grading is to be stopped."""


class _Happened:
    """Events as threads tell of them."""

    def __init__(self) -> None:
        self._queue: queue.Queue[str] = queue.Queue()
        self.put, self.get = self._queue.put, self._queue.get

    def urgent(self) -> bool:
        return any(event in _URGENT for event in list(self._queue.queue))


class _Counted(io.TextIOBase):
    """Writes to what is stdout now, for a spinner may take its place, and counts lines."""

    def __init__(self) -> None:
        self.lines, self._to = 0, sys.stdout
        self.flush, self.isatty, self.fileno = self._to.flush, self._to.isatty, self._to.fileno  # type: ignore[method-assign]

    def write(self, text: str) -> int:
        self.lines += text.count("\n")
        return self._to.write(text)


@dataclass
class Watcher:
    """One file, and what happens to it."""

    name: str
    file: Path
    engines: Engines
    events: Events
    page: live.Page = field(default_factory=live.Page)
    pictures: Pictures = field(default_factory=lambda: Pictures(Console(highlight=False)))
    seed: int = field(default_factory=lambda: random.SystemRandom().randrange(2**31))
    ending: Callable[[str, Path], None] = lesson.print_ending  # what is told below full marks
    _offered: Container[str] = _UNWRITTEN  # the keys that were named last
    _pictured: bool = False  # the picture alone is on the screen
    _over: set[str] = field(default_factory=set)  # checks that failed, and that the learner leaves for later
    _last: tuple[Verdict, Submission] | None = None
    _lines: _Counted = field(default_factory=_Counted)

    def __post_init__(self) -> None:
        self.console = Console(highlight=False, file=cast(IO[str], self._lines))

    def run(self) -> str | None:
        """Until the learner quits, or goes on to another exercise: its name."""
        event = SAVED
        while event not in _QUIT:
            try:
                going = self._do(event)
                if going is not None:
                    return going
            except BadRequest as error:
                self.console.print(f"[yellow]{escape(str(error))}[/]")
                self._keys(self._offered)
            event = self.events.get()
        return None

    def _do(self, event: str) -> str | None:
        exercise = registry.find(self.name)
        if event == SAVED:
            self._over.clear()
            self._grade(exercise, again=False)
        elif event not in self._offered:
            self._keys(self._offered)
        elif event == "n" and self._last is not None:
            self._over |= {check.name for check in self._last[0].checks if check.status != "pass"}
            self._grade(exercise)
        elif event == "a":
            self._over |= {check.name for check in exercise.checks}
            self._grade(exercise)
        elif event == "h":
            had = progress.hints_given(self.name)
            lesson.print_hint(self.name, again=had >= len(lesson.hints(self.name)) > 0)
            self._keys(self._offered)
        elif event == "p":
            self._picture() if not self._pictured else self._told_again(exercise)
        elif event == "o" and self._last is not None:
            self._write()
        elif event == "x":
            return _after(self.name)
        return None

    def _begin(self) -> None:
        """A new screen."""
        if self.console.is_terminal:
            self.console.clear()
        self._lines.lines, self._pictured = 0, False
        self.console.print(f"[dim]{time.strftime('%H:%M:%S')}  {escape(own.shown(self.file))}[/]")

    def _grade(self, exercise: Exercise, again: bool = True) -> None:
        """Grade what the file holds now, and say what came of it; `again` where it holds the same as the last time.
        Raises BadRequest where it is no submission."""
        self._begin()
        last, self._last, self._offered = self._last, None, _UNWRITTEN  # where nothing can be graded
        handed_in = submission.read(self.file, exercise.function_names)
        if which.is_stub(self.name, handed_in):
            lab = f" (`rankup lab {self.name}` opens it)" if self.file.suffix == ".ipynb" else ""
            self.console.print(
                f"{self.name} is not written yet. Write it in {escape(own.shown(self.file))}{lab}. It is graded each "
                "time you save."
            )
            return self._keys(_UNWRITTEN)
        self._last, self._offered = last, tuple(KEYS)
        failed: Container[str] = ()
        with contextlib.suppress(BadRequest):  # grading goes on where nothing can be remembered
            failed = progress.failed(self.name)
        first = tuple(sorted(exercise.checks, key=lambda check: check.name not in failed))
        verdict = self._verdict(replace(exercise, checks=first), handed_in)
        if verdict is None:
            return None
        self._last = verdict, handed_in
        grading.remember(verdict, len(verdict.checks) == len(first), again)
        if self.page.url:
            self._write()
        return self._below(verdict, len(first) - len(verdict.checks))

    def _below(self, verdict: Verdict, left: int) -> None:
        """What is told below the checks, of which so many are left."""
        told = TerminalReport()
        told.console = self.console
        if left:
            told.printed(verdict, _MOST_PRINTED)
            self.console.print(f"\n{says.counted(left, 'check')} not graded yet ({verdict.seconds:.1f} s)")
        else:
            told.summary(verdict)
        if not verdict.passed:
            self._show(self._drawn(self.console.height - self._lines.lines - 3))
        if verdict.passed and not left:
            self.ending(self.name, self.file)
            full = f"{verdict.points:g} of {verdict.max_points:g} points"  # again: it may be off the screen
            self.console.print(f"\n[bold green]Full marks: {full}.[/]")
            return self._keys(_RIGHT)
        lesson.print_offer(self.name, "h")
        return self._keys()

    def _told_again(self, exercise: Exercise) -> None:
        """What was graded last, instead of its picture alone."""
        assert self._last is not None
        self._begin()
        verdict, _ = self._last
        told = TerminalReport()
        told.console = self.console
        for result in verdict.checks:
            told.check(result)
        self._below(verdict, len(exercise.checks) - len(verdict.checks))

    def _verdict(self, exercise: Exercise, handed_in: Submission) -> Verdict | None:
        """As far as it goes; None where something else is asked for meanwhile."""
        results: list[CheckResult] = []
        began = time.monotonic()

        def heard(result: CheckResult) -> None:
            results.append(result)
            told.check(result)
            if self.events.urgent() or (result.status != "pass" and result.name not in self._over):
                raise _Stopped

        told = TerminalReport("", exercise.checks)
        told.console = self.console
        with told:
            try:
                verdict = grade(exercise, handed_in, self.engines, self.seed, on_check=heard)
            except _Stopped:
                verdict = None
        if verdict is None:
            if self.events.urgent():
                return None
            verdict = Verdict(self.name, tuple(results), self.seed, time.monotonic() - began, ())
        return verdict

    def _drawn(self, rows: int) -> RenderableType | None:
        """The picture of the run that failed, or else one of a check that passed, if it fits."""
        if self._last is None or rows < _LEAST_ROWS:
            return None
        drawn = (self.pictures.of(svg, rows) for svg in self._svgs())
        return next((each for each in drawn if each is not None), None)

    def _svgs(self) -> list[str]:
        """The pictures to choose from."""
        assert self._last is not None
        failed = self._last[0].first_failure
        graded = {check.name: check for check in self._last[0].checks}
        ordered = [graded[check.name] for check in registry.find(self.name).checks if check.name in graded]
        return [check.diagram for check in ([failed] if failed and failed.diagram else ordered) if check.diagram]

    def _picture(self) -> None:
        """The picture alone: of one screen if it fits, as long as it needs to be otherwise."""
        drawn = self._drawn(self.console.height - 3) or self._drawn(_MOST_ROWS)
        if drawn is None:
            needs = min(map(self.pictures.least, self._svgs()))
            if needs > self.console.width:
                told = f"the picture needs {needs} columns, and this terminal has {self.console.width}"
                raise BadRequest(f"{told}. Press o for the page")
            raise BadRequest("the picture does not fit this terminal. Press o for the page")
        self.console.clear()
        self._show(drawn)
        self._pictured = True
        self._keys(self._offered)

    def _show(self, drawn: RenderableType | None) -> None:
        if drawn is not None:
            self.console.print(drawn, no_wrap=True)

    def _keys(self, keys: Container[str] = (*KEYS,)) -> None:
        told = KEYS | ({"p": "back"} if self._pictured else {})
        if self._last is None or not any(check.diagram for check in self._last[0].checks):
            del told["p"]
        self._offered = [key for key in told if key in keys]
        names = "  ".join(f"[bold]{key}[/] {told[key]}" for key in self._offered)
        self.console.print(f"\n[dim]{names}[/]")

    def _write(self) -> None:
        """Show the page of what was graded last. Raises BadRequest."""
        assert self._last is not None
        verdict, handed_in = self._last
        left = len(registry.find(self.name).checks) - len(verdict.checks)
        note = (
            f"{says.counted(left, 'check')} not graded yet, because watch stops at the first that fails."
            if left
            else ""
        )
        page = feedback.page(
            verdict, handed_in.source, learner=self.file.name, when=time.strftime("%H:%M:%S"), note=note,
            scripts=[moments.player(), live.SCRIPT],
        )  # fmt: skip
        self.page.show(page, self.console)


def _after(name: str) -> str:
    """The exercise that comes next of those without full marks, first in the same chapter. Raises BadRequest where
    there is none."""
    chapter, best = registry.find(name).chapter, progress.best()
    others = [each for each in registry.catalogue() if each.name != name]
    for each in (found.name for found in sorted(others, key=lambda found: found.chapter < chapter)):
        if each not in best or best[each].points < best[each].max_points:
            return each
    raise BadRequest("you have full marks in every other exercise")


def watch(name: str, file: Path, engines: Engines, ending: Callable[[str, Path], None] = lesson.print_ending) -> None:
    """Grade `file` now, and whenever it is saved, until the learner quits; `ending` is told below full marks. Raises
    BadRequest for what is no file."""
    if not file.is_file():
        submission.read(file, ["f"])  # says what is wrong with it
    events, page, pictures = _Happened(), live.Page(), Pictures.on(Console(highlight=False))
    with _keys(events), contextlib.closing(page), contextlib.suppress(KeyboardInterrupt):
        going: str | None = name
        while going is not None:
            with _saves(file, events):
                going = Watcher(going, file, engines, events, page, pictures, ending=ending).run()
            if going is not None:
                file = own.place(going)
                if not file.exists():
                    own.start(going)


@contextlib.contextmanager
def _saves(file: Path, events: _Happened) -> Iterator[None]:
    """Put SAVED for every change of the file; its folder is watched, since many editors save by renaming."""
    over, path = threading.Event(), file.resolve()

    def follow() -> None:
        for changes in watchfiles.watch(path.parent, stop_event=over, step=20, debounce=200, recursive=False):
            if any(Path(changed) == path and kind != watchfiles.Change.deleted for kind, changed in changes):
                events.put(SAVED)

    threading.Thread(target=follow, daemon=True).start()
    try:
        yield
    finally:
        over.set()


@contextlib.contextmanager
def _keys(events: _Happened) -> Iterator[None]:
    """Put every key that is pressed, where there is a keyboard."""
    if not sys.stdin.isatty():
        yield
        return
    before = termios.tcgetattr(sys.stdin)

    def read() -> None:
        while key := os.read(sys.stdin.fileno(), 1):  # and not what holds a lock when Python ends
            if (event := key.decode("ascii", "replace")) in (*KEYS, *_QUIT):
                events.put(event)

    try:
        tty.setcbreak(sys.stdin)
        threading.Thread(target=read, daemon=True).start()
        yield
    finally:
        termios.tcsetattr(sys.stdin, termios.TCSADRAIN, before)
