"""An interview full-screen, through Textual's pilot: keys, clocks, and what comes of them."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest
from textual.geometry import Region
from textual.pilot import Pilot
from textual.widgets import Input, Markdown, Static, TextArea

from grader.quiz.interview import rounds
from grader.quiz.interview.conduct import Talk
from grader.quiz.interview.task import Done, Task, aloud
from grader.quiz.screen.app import StepApp, StepScreen
from grader.quiz.screen.boxes import ItemsBox
from tests.quiz.interview.conftest import ROUND, task

STAGE = rounds.parse(ROUND, "small.md", "small").stages[1]


class Stage:
    """The app on a screen that nobody sees, and a clock that stands until it is set."""

    def __init__(self, *tasks: Task) -> None:
        self.seconds, self.done = 0.0, list[Done]()
        talk = Talk(tasks, 10, lambda: self.seconds, self.done.append, "mid, 10 minutes. Seed 1.")
        self.app = StepApp(talk.steps())

    def play(self, act: Callable[[Pilot[Any]], Awaitable[None]], size: tuple[int, int] = (100, 30)) -> None:
        async def run() -> None:
            async with self.app.run_test(size=size) as pilot:
                await act(pilot)
            self.app.finish()

        asyncio.run(run())

    async def press(self, pilot: Pilot[Any], *keys: str) -> None:
        for key in keys:
            await pilot.press(key)
        await pilot.pause()

    async def write(self, pilot: Pilot[Any], text: str) -> None:
        """Type a text at once."""
        focused = self.app.focused
        assert isinstance(focused, (Input, TextArea))
        if isinstance(focused, Input):
            focused.value = text
        else:
            focused.insert(text)
        await pilot.pause()

    @property
    def screen(self) -> StepScreen:
        assert isinstance(self.app.screen, StepScreen)
        return self.app.screen

    @property
    def asks(self) -> str:
        return self.screen.step.asks

    def text(self, selector: str) -> str:
        return str(self.app.screen.query_one(selector, Static).render())


@pytest.mark.parametrize("size", [(120, 40), (60, 16)])
def test_a_question_by_keys(size: tuple[int, int]) -> None:
    stage = Stage(task(), task("q-b"))

    async def act(pilot: Pilot[Any]) -> None:
        await stage.press(pilot, *"1q s")  # text, no keys
        stage.seconds = 90
        await stage.press(pilot, "ctrl+s")
        assert stage.asks == "pick"
        assert "paused" in stage.text("#clock")
        await stage.press(
            pilot, "1", "down", "space", "1", "3", "9", "enter"
        )  # 1 is ticked and unticked; 2 from below 1
        assert stage.asks == "read"
        await stage.press(pilot, "2")  # its answer is not shown yet
        await stage.press(pilot, "enter", "2")
        assert stage.asks == "lines"

    stage.play(act, size)
    (done,) = stage.done
    assert (done.written, done.seconds, done.rating) == ("1q s", 90, "rated")
    assert [each.had for each in done.ticked] == [False, True, True]
    assert done.follow_ups == (("And then?", 1.0),)


def test_the_clock_counts_down_and_then_over() -> None:
    stage = Stage(task())

    async def act(pilot: Pilot[Any]) -> None:
        assert stage.text("#clock") == "4:00 left for this, 10:00 left in total"
        stage.seconds = 250
        stage.screen.tick()
        assert stage.text("#clock") == "0:10 over for this, 5:50 left in total"
        assert stage.app.screen.query_one("#clock").has_class("late")

    stage.play(act)


@pytest.mark.parametrize(
    ("keys", "rating"),
    [(["ctrl+q"], None), (["a", "ctrl+c"], "unrated"), (["a", "ctrl+s", "ctrl+q"], "unrated"),
     (["a", "ctrl+s", "1", "enter", "ctrl+c"], "rated"), (["ctrl+n", "ctrl+q"], "skipped")],
)  # fmt: skip
def test_leaving_anywhere_keeps_what_there_is(keys: list[str], rating: str | None) -> None:
    stage = Stage(task(), task("q-b"))

    async def act(pilot: Pilot[Any]) -> None:
        await stage.press(pilot, *keys)

    stage.play(act)
    assert [done.rating for done in stage.done] == ([rating] if rating else [])


def test_a_bell_rings_once_when_the_time_for_a_question_is_over(monkeypatch: pytest.MonkeyPatch) -> None:
    stage, rung = Stage(aloud(task()), aloud(task("q-b"))), list[float]()
    monkeypatch.setattr(stage.app, "bell", lambda: rung.append(stage.seconds))

    async def act(pilot: Pilot[Any]) -> None:
        for stage.seconds in (89, 91, 120):
            stage.screen.tick()
        assert rung == [91]
        await stage.press(pilot, "enter", "1", "enter")
        for stage.seconds in (209, 211):
            stage.screen.tick()
        assert rung == [91, 211]
        await stage.press(pilot, "ctrl+q")

    stage.play(act)


def test_a_number_that_is_refused_can_be_corrected() -> None:
    stage = Stage(STAGE)

    async def act(pilot: Pilot[Any]) -> None:
        await stage.write(pilot, "16 s")
        await stage.press(pilot, "enter")
        field = stage.app.screen.query_one(Input)
        assert (field.value, field.selected_text) == ("16 s", "16 s")
        await stage.press(pilot, "1", "6", "enter", "enter")
        assert stage.app.screen.query_one(Input).value == ""

    stage.play(act)


def test_a_stage_by_keys() -> None:
    stage = Stage(STAGE)

    async def act(pilot: Pilot[Any]) -> None:
        assert stage.asks == "line"
        await stage.write(pilot, "12")
        await stage.press(pilot, "enter")
        assert "too small, by a factor below 2" in stage.text("#said")
        await stage.press(pilot, "ctrl+t")
        assert "hint" not in stage.text("#keys")  # there is no other
        await stage.write(pilot, "16000 GB")
        await stage.press(pilot, "enter")
        assert stage.asks == "look"
        await stage.press(pilot, "enter")
        for _ in range(3):
            await stage.press(pilot, "enter", "enter", "enter")  # given up, and read
        assert isinstance(stage.app.focused, TextArea)
        await stage.press(pilot, "x", "ctrl+s", "2", "enter")

    stage.play(act)
    (done,) = stage.done
    assert [guess.earned for guess in done.guesses] == [0.5, 0, 0, 0]
    assert (done.earned, done.hint_cost) == (0.5, 1)


def test_a_hint_keeps_what_is_written() -> None:
    from dataclasses import replace

    stage = Stage(replace(STAGE, estimates=()))

    async def act(pilot: Pilot[Any]) -> None:
        await stage.write(pilot, "so far")
        await stage.press(pilot, "ctrl+t")
        assert stage.app.screen.query_one(TextArea).text == "so far"
        assert "Multiply." in "".join(each.source for each in stage.screen.query(Markdown))

    stage.play(act)


def test_what_has_the_focus_is_what_one_types_into() -> None:
    stage = Stage(STAGE)

    async def act(pilot: Pilot[Any]) -> None:
        assert isinstance(stage.app.focused, Input)
        await stage.press(pilot, "ctrl+n")
        assert stage.asks == "read"
        assert not stage.screen.query(ItemsBox)
        await stage.press(pilot, "1", "enter")

    stage.play(act)
    assert (stage.done[0].rating, stage.done[0].earned) == ("skipped", 0)


def test_a_field_that_is_drawn_once_more_when_it_is_gone_ends_nothing() -> None:
    stage = Stage(task())

    async def act(pilot: Pilot[Any]) -> None:
        field = stage.app.screen.query_one(TextArea)
        await field.remove()
        assert [len(line.text) for line in field.render_lines(Region(0, 0, 5, 2))] == [5, 5]

    stage.play(act)
