"""An interview without a screen: its steps, its clock, and what is kept of it."""

from __future__ import annotations

from typing import Any

import pytest

from grader.quiz.interview import mentioned, rounds
from grader.quiz.interview.conduct import Talk
from grader.quiz.interview.task import Done, Point, Task
from grader.quiz.steps import Do, Reply, Text, advance
from tests.quiz.interview.conftest import ROUND, task

STAGE = rounds.parse(ROUND, "small.md", "small").stages[1]


class Play:
    """Replies to a talk, each after so many seconds."""

    def __init__(self, *tasks: Task, minutes: float = 10) -> None:
        self.seconds, self.done = 0.0, list[Done]()
        self.steps = Talk(tasks, minutes, lambda: self.seconds, self.done.append).steps()
        self.step: Any = advance(self.steps)

    def reply(self, reply: Reply, seconds: float = 0) -> Any:
        self.seconds += seconds
        self.step = advance(self.steps, reply)
        return self.step

    def left(self, seconds: float) -> tuple[float, float]:
        """What the clocks say so many seconds into the step."""
        self.seconds += seconds
        left: tuple[float, float] = self.step.left()
        self.seconds -= seconds
        return left


def test_a_question_from_prompt_to_follow_up() -> None:
    play = Play(task(), task("q-b"))
    assert play.step.asks == "lines"
    rate = play.reply("  My answer.\n", 100)
    assert (rate.asks, rate.mine, rate.page[0].text) == ("pick", "My answer.", "That took 1:40.")
    follow = play.reply("1 3", 1000)  # reading is nobody's time
    assert (follow.asks, Text("Then this.") in follow.page) == ("read", False)
    shown = play.reply("", 20)
    assert (shown.asks, Text("Then this.") in shown.page) == ("rate", True)
    assert play.done == []
    after = play.reply("1", 500)
    assert (after.asks, after.title[:6]) == ("lines", "2 of 2")
    (done,) = play.done
    assert (done.rating, done.earned, done.most, done.seconds) == ("rated", 2, 3, 120)
    assert done.follow_ups == (("And then?", 0.5),)
    assert done.missed == ["Point b"]


def test_points_weigh_and_those_above_the_level_are_told_and_count_for_nothing() -> None:
    points = (Point("a", "mid", 1), Point("b", "senior", 3), Point("c", "principal", 2))
    play = Play(task(level="senior", points=points))
    assert play.reply("x").items[:1] == ("*mid, 1:* a",)
    assert play.step.items[2] == "*principal, beyond this question's level:* c"
    play.reply("2 3")
    play.reply(Do("q"))
    (done,) = play.done
    assert (done.earned, done.most, done.missed) == (3, 4, ["a"])


def test_the_clocks_count_down_and_below_zero_and_cut_nothing_off() -> None:
    play = Play(task(), task("q-b"), minutes=5)
    assert play.left(30) == (210, 270)
    play.reply("late", 330)
    assert play.left(60) == (-90, -30)  # it stands while one reads
    play.reply("a", 60)
    play.reply("", 5)
    play.reply("2")
    assert play.left(0) == (240, -35)
    assert play.done[0].late


def test_a_clock_that_goes_back_takes_no_time() -> None:
    play = Play(task())
    assert play.reply("x", -100).page[0].text == "That took 0:00."


def test_a_skipped_question_shows_the_answer_and_earns_nothing() -> None:
    play = Play(task(), task("q-b"))
    shown = play.reply(Do("s"), 5)
    assert (shown.asks, shown.page[0].text) == ("read", "Skipped.")
    assert play.reply("").asks == "lines"
    assert (play.done[0].rating, play.done[0].earned, play.done[0].most) == ("skipped", 0, 3)


@pytest.mark.parametrize(
    ("replies", "rating", "written"),
    [
        ([Do("q")], None, ""),
        ([Do("q", "  ")], None, ""),
        ([Do("q", "half an answer")], "unrated", "half an answer"),
        (["an answer", Do("q")], "unrated", "an answer"),
        (["", Do("q")], None, ""),
        ([Do("s"), Do("q")], "skipped", ""),
        (["an answer", "1", Do("q")], "rated", "an answer"),
        (["an answer", "1", "", Do("q")], "rated", "an answer"),
    ],
)
def test_leaving_keeps_what_there_is(replies: list[Reply], rating: str | None, written: str) -> None:
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
    "given up": (["", ""], 0.0, ()),
    "given up after one": (["12", "", ""], 0.0, ("12",)),
    "an Enter too many": (["", "16"], 1.0, ("16",)),
    "no number costs no try": (["many", "16 s", "16"], 1.0, ("16",)),
}


OFF = [("12", "small, by a factor below 2"), ("1", "small, by a factor of 10 to 1,000"), ("0", "that is not it"),
       ("1e9", "large, by a factor of 1,000 or more")]  # fmt: skip


@pytest.mark.parametrize(("typed", "off"), OFF)
def test_how_far_off_a_number_is_does_not_tell_the_right_one(typed: str, off: str) -> None:
    said = Play(STAGE).reply(typed).said
    assert off in said
    assert "16" not in said


@pytest.mark.parametrize(("typed", "earned", "kept"), NUMBERS.values(), ids=NUMBERS)
def test_a_number_is_checked(typed: list[str], earned: float, kept: tuple[str, ...]) -> None:
    play = Play(STAGE)
    for text in typed:
        assert play.step.asks == "line"
        play.reply(text)
    assert play.step.asks == "look"
    assert any("it is 16 TB." in block.text for block in play.step.page)
    play.reply(Do("q"))
    guess = play.done[0].guesses[0]
    assert (guess.earned, guess.typed, guess.right) == (earned, kept, "16 TB")


def test_a_stage_with_a_hint() -> None:
    play = Play(STAGE)
    assert Text("**Hint.** Multiply.") in play.reply(Do("h")).page
    for right in ("16", "2", "50", "3"):
        play.reply(right)
        play.reply("")
    assert play.step.asks == "lines"
    assert Text("**Hint.** Multiply.") in play.step.page
    play.reply(Do("h"))  # there is no other: it costs nothing
    play.reply("so")
    assert play.reply("1 2") is None
    assert (play.done[0].earned, play.done[0].most, play.done[0].hint_cost) == (4 + 2 - 1, 7, 1)


def test_skipping_a_stage_keeps_the_numbers_that_were_right() -> None:
    play = Play(STAGE)
    play.reply("16")
    play.reply("")
    assert play.reply(Do("s")).asks == "read"
    assert play.reply("") is None
    assert (play.done[0].rating, play.done[0].earned, play.done[0].most) == ("skipped", 1, 7)


def test_points_never_fall_below_zero() -> None:
    play = Play(STAGE)
    play.reply(Do("h"))
    play.reply(Do("s"))
    play.reply("")
    assert play.done[0].earned == 0


@pytest.mark.parametrize(
    ("point", "answer", "words"),
    [
        (
            "**Loss scaling**: small gradients vanish in fp16",
            "I am not sure.",
            ["Loss", "scaling", "small", "gradients"],
        ),
        ("**Loss scaling**", "Scale the losses", []),
        ("A CP system refuses the minority", "it refused", ["CP", "system", "minority"]),
        ("Anything", "", []),
        ("With less than they have", "nothing of it", []),
    ],
)
def test_words_of_a_point_that_an_answer_never_mentions(point: str, answer: str, words: list[str]) -> None:
    assert mentioned.missing(point, answer)[:4] == words


def test_no_task_is_no_step() -> None:
    assert Play().step is None


def test_leaving_a_stage_keeps_the_points_of_its_numbers() -> None:
    play = Play(STAGE)
    play.reply("16")
    play.reply("")
    play.reply("1 day")
    assert play.reply(Do("q")) is None
    (done,) = play.done
    assert (done.rating, done.earned, done.most, done.missed) == ("unrated", 1, 1, [])
