"""`rankup watch`: grade a file each time it is saved, what failed last first, with everything kept warm.

It stops at the first check that fails. What is graded partly is no try.
"""

from __future__ import annotations

import contextlib
import os
import queue
import random
import sys
import termios
import threading
import time
import tty
import webbrowser
from collections.abc import Container, Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Protocol

import watchfiles
from rich.console import Console
from rich.markup import escape

from grader import progress, registry, says, submission
from grader.classroom import grading, lesson, own, running, which
from grader.classroom.pages import feedback
from grader.classroom.terminal import TerminalReport
from grader.exercise import Exercise
from grader.grading import grade
from grader.ranks.engines import Engines
from grader.submission import BadRequest, Submission
from grader.verdict import CheckResult, Verdict

SAVED = "saved"
KEYS = {"h": "hint", "n": "next check", "a": "all checks", "o": "open the page", "q": "quit"}
_QUIT = ("q", "\x03", "\x04")
_URGENT = (SAVED, "n", "a", *_QUIT)  # a grading is stopped for these; the others wait until it is done


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


@dataclass
class Watcher:
    """One file, and what happens to it. `page` is written when it is asked for, and from then on."""

    name: str
    file: Path
    engines: Engines
    events: Events
    page: Path
    seed: int = field(default_factory=lambda: random.SystemRandom().randrange(2**31))
    console: Console = field(default_factory=lambda: Console(highlight=False))
    _over: set[str] = field(default_factory=set)  # checks that failed, and that the learner leaves for later
    _last: tuple[Verdict, Submission] | None = None
    _shown: bool = False  # whether the page is open

    def run(self) -> None:
        """Until the learner quits."""
        event = SAVED
        while event not in _QUIT:
            try:
                self._do(event)
            except BadRequest as error:
                self.console.print(f"[yellow]{escape(str(error))}[/]")
            event = self.events.get()

    def _do(self, event: str) -> None:
        exercise = registry.find(self.name)
        if event == SAVED:
            self._over.clear()
            self._grade(exercise)
        elif event == "n" and self._last is not None:
            self._over |= {check.name for check in self._last[0].checks if check.status != "pass"}
            self._grade(exercise)
        elif event == "a":
            self._over |= {check.name for check in exercise.checks}
            self._grade(exercise)
        elif event == "h":
            lesson.print_hint(self.name)
        elif event == "o" and self._last is not None:
            self._write()
            self._shown = webbrowser.open(self.page.resolve().as_uri())
            self.console.print(f"the page is {escape(str(self.page))}; load it again after each save")

    def _grade(self, exercise: Exercise) -> None:
        """Grade what the file holds now, and say what came of it. Raises BadRequest where it is no submission."""
        if self.console.is_terminal:
            self.console.clear()
        handed_in = submission.read(self.file, exercise.function_names)
        if which.is_stub(self.name, handed_in):
            self.console.print(f"{escape(own.shown(self.file))}: {self.name} is not written yet.")
            return self._keys()
        failed: Container[str] = ()
        with contextlib.suppress(BadRequest):  # grading goes on where nothing can be remembered
            failed = progress.failed(self.name)
        first = tuple(sorted(exercise.checks, key=lambda check: check.name not in failed))
        verdict = self._verdict(replace(exercise, checks=first), handed_in)
        if verdict is None:
            return None
        self._last = verdict, handed_in
        whole = len(verdict.checks) == len(first)
        grading.remember(verdict, whole)
        if self._shown:
            self._write()
        if not verdict.passed:
            lesson.print_offer(self.name)
        elif whole:
            lesson.print_ending(self.name, self.file)
        return self._keys()

    def _verdict(self, exercise: Exercise, handed_in: Submission) -> Verdict | None:
        """As far as it goes; None where something else is asked for meanwhile."""
        results: list[CheckResult] = []
        began = time.monotonic()

        def heard(result: CheckResult) -> None:
            results.append(result)
            told.check(result)
            if self.events.urgent() or (result.status != "pass" and result.name not in self._over):
                raise _Stopped

        with TerminalReport("", exercise.checks) as told:
            try:
                verdict = grade(exercise, handed_in, self.engines, self.seed, on_check=heard)
            except _Stopped:
                verdict = None
        if verdict is None:
            if self.events.urgent():
                return None
            verdict = Verdict(self.name, tuple(results), self.seed, time.monotonic() - began, ())
        left = len(exercise.checks) - len(results)
        if left:
            self.console.print(f"\n{says.counted(left, 'check')} not graded yet ({verdict.seconds:.1f} s)")
        else:
            told.summary(verdict)
        return verdict

    def _keys(self) -> None:
        names = "  ".join(f"[bold]{key}[/] {what}" for key, what in KEYS.items())
        self.console.print(f"\n[dim]{names}[/]")

    def _write(self) -> None:
        """Write the page of what was graded last. Raises BadRequest."""
        assert self._last is not None
        verdict, handed_in = self._last
        when = time.strftime("%H:%M:%S")
        try:
            self.page.parent.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise BadRequest(f"{self.page}: cannot be written: {error.strerror}") from None
        running.write_whole(self.page, feedback.page(verdict, handed_in.source, learner=self.file.name, when=when))


def watch(name: str, file: Path, engines: Engines) -> None:
    """Grade `file` now, and whenever it is saved, until the learner quits. Raises BadRequest for what is no file."""
    if not file.is_file():
        submission.read(file, ["f"])  # says what is wrong with it
    events, page = _Happened(), progress.data_folder() / "watched" / f"{name}.html"
    with _saves(file, events), _keys(events), contextlib.suppress(KeyboardInterrupt):
        Watcher(name, file, engines, events, page).run()


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
