"""An interview without a screen: its steps, its clock, and what is kept of it."""

from __future__ import annotations

from typing import Any

import pytest

from grader.quiz.interview import conduct, rounds
from grader.quiz.interview.conduct import HINT, QUIT, SKIP, Follow, Leave, Rate, Talk, Work, Worked, Write
from grader.quiz.interview.task import Done, Task
from tests.quiz.interview.conftest import ROUND, task

STAGE = rounds.parse(ROUND, "small.md", "small").stages[1]


class Play:
    """Replies to a talk, each after so many seconds."""

    def __init__(self, *tasks: Task, minutes: float = 10) -> None:
        self.seconds, self.done = 0.0, list[Done]()
        self.talk = Talk(tasks, minutes, lambda: self.seconds, self.done.append)
        self.step: Any = self.talk.start()

    def reply(self, reply: conduct.Reply, seconds: float = 0) -> Any:
        self.seconds += seconds
        self.step = self.talk.reply(reply)
        return self.step


def test_a_question_from_prompt_to_follow_up() -> None:
    play = Play(task(), task("q-b"))
    assert isinstance(play.step, Write)
    rate = play.reply("  My answer.\n", 100)
    assert isinstance(rate, Rate)
    assert (rate.written, rate.seconds) == ("My answer.", 100)
    follow = play.reply((True, False, True), 1000)  # reading is nobody's time
    assert isinstance(follow, Follow)
    assert not follow.shown
    assert play.reply(None, 20).shown
    assert play.done == []
    after = play.reply(0.5, 500)
    assert isinstance(after, Write)
    assert (after.place.at, after.place.of) == (2, 2)
    (done,) = play.done
    assert (done.rating, done.earned, done.most, done.seconds) == ("rated", 2, 3, 120)
    assert done.follow_ups == (("And then?", 0.5),)
    assert done.missed == ["Point b"]


def test_the_clocks_count_down_and_below_zero_and_cut_nothing_off() -> None:
    play = Play(task(), task("q-b"), minutes=5)
    assert play.step.place.left(30) == (210, 270)
    play.reply("late", 330)
    play.reply((True, True, True), 60)
    play.reply(None, 5)
    after = play.reply(1.0)
    assert after.place.left(0) == (240, -35)
    assert play.done[0].late


def test_a_clock_that_goes_back_takes_no_time() -> None:
    play = Play(task())
    assert play.reply("x", -100).seconds == 0


def test_a_skipped_question_shows_the_answer_and_earns_nothing() -> None:
    play = Play(task(), task("q-b"))
    rate = play.reply(SKIP, 5)
    assert isinstance(rate, Rate)
    assert rate.skipped
    assert isinstance(play.reply(None), Write)
    assert (play.done[0].rating, play.done[0].earned, play.done[0].most) == ("skipped", 0, 3)


@pytest.mark.parametrize(
    ("replies", "rating", "written"),
    [
        ([QUIT], None, ""),
        ([Leave("  ")], None, ""),
        ([Leave("half an answer")], "unrated", "half an answer"),
        (["an answer", QUIT], "unrated", "an answer"),
        (["", QUIT], None, ""),
        ([SKIP, QUIT], "skipped", ""),
        (["an answer", (True, False, False), QUIT], "rated", "an answer"),
        (["an answer", (True, False, False), None, QUIT], "rated", "an answer"),
    ],
)
def test_leaving_keeps_what_there_is(replies: list[conduct.Reply], rating: str | None, written: str) -> None:
    play = Play(task(), task("q-b"))
    for reply in replies:
        play.reply(reply)
    assert play.step is None
    assert [(done.rating, done.written) for done in play.done] == ([(rating, written)] if rating else [])
    assert all(done.follow_ups == (("And then?", None),) for done in play.done)
    assert all(done.most == 0 for done in play.done if done.rating == "unrated")


NUMBERS = {
    "right at once": (["16 TB"], 1.0, ("16 TB",)),
    "another unit": (["16000 GB"], 1.0, ("16000 GB",)),
    "within the tolerance": (["17"], 1.0, ("17",)),
    "right at the second try": (["12", "16e12 B"], 0.5, ("12", "16e12 B")),
    "wrong twice": (["12", "1"], 0.0, ("12", "1")),
    "given up": ([""], 0.0, ()),
    "given up after one": (["12", ""], 0.0, ("12",)),
    "no number costs no try": (["many", "16 s", "16"], 1.0, ("16",)),
}


@pytest.mark.parametrize(("typed", "earned", "kept"), NUMBERS.values(), ids=NUMBERS)
def test_a_number_is_checked(typed: list[str], earned: float, kept: tuple[str, ...]) -> None:
    play = Play(STAGE)
    for text in typed:
        assert isinstance(play.step, Work)
        play.reply(text)
    assert isinstance(play.step, Worked)
    assert (play.step.guess.earned, play.step.guess.typed, play.step.guess.right) == (earned, kept, "16 TB")


def test_a_stage_with_a_hint() -> None:
    play = Play(STAGE)
    assert play.reply(HINT).hints == ("Multiply.",)
    for right in ("16", "2", "50", "3"):
        play.reply(right)
        play.reply(None)
    assert isinstance(play.step, Write)
    assert play.step.hints == ("Multiply.",)
    play.reply(HINT)  # there is no other: it costs nothing
    play.reply("so")
    assert play.reply((True, True, False)) is None
    assert (play.done[0].earned, play.done[0].most, play.done[0].hint_cost) == (4 + 2 - 1, 7, 1)


def test_skipping_a_stage_keeps_the_numbers_that_were_right() -> None:
    play = Play(STAGE)
    play.reply("16")
    play.reply(None)
    assert isinstance(play.reply(SKIP), Rate)
    assert play.reply(None) is None
    assert (play.done[0].rating, play.done[0].earned, play.done[0].most) == ("skipped", 1, 7)


def test_points_never_fall_below_zero() -> None:
    play = Play(STAGE)
    play.reply(HINT)
    play.reply(SKIP)
    play.reply(None)
    assert play.done[0].earned == 0


def test_no_task_is_no_step() -> None:
    assert Play().step is None


def test_leaving_a_stage_keeps_the_points_of_its_numbers() -> None:
    play = Play(STAGE)
    play.reply("16")
    play.reply(None)
    play.reply("1 day")
    assert play.reply(QUIT) is None
    (done,) = play.done
    assert (done.rating, done.earned, done.most, done.missed) == ("unrated", 1, 1, [])
