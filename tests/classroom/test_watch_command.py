"""`rankup watch`: each save is graded, up to the first check that fails; nothing is left of it in the end."""

from __future__ import annotations

import contextlib
import os
import re
import signal
import sys
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path

import pexpect
import psutil
import pytest
from often import often

from grader import progress
from grader.authoring import verdicts
from grader.classroom import live, own, watch
from grader.ranks.engines import Engines

RANKUP = str(Path(sys.executable).parent / "rankup")
NAME = "cost_model"
STUB = "def predict(): pass\n"


class Scripted:
    """A learner who does one thing after another, each when the one before it has been answered."""

    def __init__(self, *steps: Callable[[], str]) -> None:
        self.steps = iter(steps)

    def urgent(self) -> bool:
        return False

    def get(self) -> str:
        return next(self.steps, lambda: "q")()


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    monkeypatch.setenv("RANKUP_DATA", str(tmp_path / "data"))
    monkeypatch.setenv("COLUMNS", "120")
    monkeypatch.chdir(tmp_path)
    return own.start(NAME).path


def program(which: str) -> str:
    return verdicts.handed_in(NAME, which).source


def test_a_learner_goes_from_the_stub_to_full_marks(
    place: Path, engines: Engines, capsys: pytest.CaptureFixture[str]
) -> None:
    said: list[str] = []
    file = place.with_suffix(".py")
    file.write_text(program("reference"))

    def does(text: str | None, key: str = watch.SAVED) -> Callable[[], str]:
        def step() -> str:
            said.append(capsys.readouterr().out)
            if text is not None:
                file.write_text(text)
            return key

        return step

    wrong = program("wrong/alpha_at_least_zero")
    events = Scripted(
        does(wrong), does(None, "n"), does(None, "a"), does(""), does(None, "h"), does(program("reference")),
        does(None, "x"),
    )  # fmt: skip
    assert watch.Watcher(NAME, file, engines, events, seed=1).run() == watch._after(NAME) != NAME
    right, first, rest, everything, empty, hint, again = said
    assert "The interviewer goes on" in right
    assert "not graded yet" in first
    assert first.count("✗") == 1
    assert rest.count("✗") >= first.count("✗")
    assert "points" in everything
    assert "is empty" in empty
    assert "Hint 1 of 3" in hint
    assert "The interviewer goes on" in again
    assert progress.best()[NAME].attempts == 4, "what was stopped is no try"


def test_what_failed_last_comes_first(place: Path, engines: Engines, capsys: pytest.CaptureFixture[str]) -> None:
    file = place.with_suffix(".py")
    file.write_text(program("wrong/almost_rounded_up"))  # loses in one check alone, which is not the first
    shown: list[str] = []

    def save() -> str:
        shown.append(capsys.readouterr().out)
        return watch.SAVED

    watch.Watcher(NAME, file, engines, Scripted(save), seed=1).run()
    shown.append(capsys.readouterr().out)
    assert "✓" in shown[0]
    assert "✓" not in shown[1]
    assert shown[1].count("✗") == 1


def test_an_untouched_copy_is_not_written_yet(
    place: Path, engines: Engines, capsys: pytest.CaptureFixture[str]
) -> None:
    watch.Watcher(NAME, place, engines, Scripted()).run()
    said = capsys.readouterr().out
    assert own.shown(place) in said
    assert "cost_model is not written yet." in said
    assert "next check" not in said
    assert not progress.best()


def test_it_grades_where_nothing_can_be_remembered(
    place: Path, engines: Engines, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (place.parent / "file").write_text("")
    monkeypatch.setenv("RANKUP_DATA", str(place.parent / "file" / "x"))
    file = place.with_name("a [b].py")
    file.write_text(program("wrong/alpha_at_least_zero"))
    watch.Watcher(NAME, file, engines, Scripted(lambda: "h"), seed=1).run()
    said = capsys.readouterr().out
    assert said.count("✗") == 1
    assert "your progress cannot be read or written" in " ".join(said.split())


def test_the_page_in_a_browser_follows_each_save(
    place: Path, engines: Engines, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("BROWSER", "true")
    file = place.with_suffix(".py")
    file.write_text(program("wrong/alpha_at_least_zero"))
    pages: list[str] = []

    def saves() -> str:
        [url] = re.findall(r"http://\S+", capsys.readouterr().out)
        pages.append(read(url))
        file.write_text(program("reference"))
        return watch.SAVED

    def looks() -> str:
        assert shown.url is not None
        pages.append(read(shown.url))
        return "q"

    with contextlib.closing(live.Page()) as shown:
        watch.Watcher(NAME, file, engines, Scripted(lambda: "o", saves, looks), shown, seed=1).run()
    first, second = pages
    assert "not graded yet, because watch stops at the first that fails" in first
    assert "One thing to fix" in first
    assert "to fix" not in second
    assert shown.url is not None
    with pytest.raises(OSError, match="refused"):
        read(shown.url)


def read(url: str) -> str:
    with urllib.request.urlopen(url, timeout=30) as answer:
        return str(answer.read(), "utf-8")


def test_a_save_stops_a_grading_and_a_question_does_not() -> None:
    events = watch._Happened()
    for event, urgent in (("h", False), ("o", False), (watch.SAVED, True)):
        events.put(event)
        assert events.urgent() == urgent
    assert [events.get() for _ in range(3)] == ["h", "o", watch.SAVED]


@pytest.mark.parametrize("key", often(["q", "\x03", "killed"], "q"))
def test_on_a_terminal_a_save_is_graded_and_nothing_is_left(place: Path, key: str) -> None:
    file = place.with_suffix(".py")
    file.write_text(STUB)
    me = pexpect.spawn(RANKUP, ["watch", NAME, str(file)], dimensions=(40, 100), encoding="utf8", timeout=60)
    me.expect("missing_function")
    me.expect("quit")
    new = file.with_suffix(".new")
    new.write_text(program("reference"))
    os.replace(new, file)  # as many editors save
    me.expect("The interviewer goes on")
    me.expect("quit")
    below = psutil.Process(me.pid).children(recursive=True)
    assert below, "the host is kept warm"
    if key == "killed":
        me.kill(signal.SIGKILL)
    else:
        me.send(key)
    me.expect(pexpect.EOF)
    me.close()
    assert (me.exitstatus, me.signalstatus) == ((None, signal.SIGKILL) if key == "killed" else (0, None))
    assert not psutil.wait_procs(below, timeout=10)[1]
