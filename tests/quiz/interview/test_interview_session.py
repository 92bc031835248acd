"""A whole interview in plain lines: what is shown, kept, made due and written."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from grader.quiz import store
from grader.quiz.deck import DeckError
from grader.quiz.interview import journal, report, session
from grader.quiz.interview.task import Interview, interview_from, to_json
from tests.quiz.interview.conftest import NOON

GOOD = ["My answer.", ".", "a", "", "2", "", "1"]  # a question: answer, rubric, two follow-ups
BAD = ["Something.", ".", "1", "", "0", "", "0"]


def kept() -> list[Interview]:
    with store.opened() as progress:
        return [interview_from(each) for each in progress.interviews()]


def soon() -> set[str]:
    with store.opened() as progress:
        return progress.soon()


def files(out: Path) -> list[str]:
    return sorted(path.name for path in out.iterdir())


def test_an_interview_from_end_to_end(hold: Any, out: Path) -> None:
    status, shown = hold([*GOOD, *BAD], minutes=8)
    assert status == 0
    order = ["1 of 2", "2 questions. Seed 1.", "4:00 left for this, 8:00 left in total", "What a strong candidate says",
             "What an interviewer listens for", "Follow-up 1 of 2", "This follows.", "2 of 2",
             "4 of 6 points, 67%"]  # fmt: skip
    places = [shown.index(words) for words in order]
    assert places == sorted(places)
    (interview,) = kept()
    assert (interview.level, interview.seed, interview.planned) == ("mid", 1, 2)
    assert [done.earned for done in interview.done] == [3, 1]
    assert files(out) == ["2026-03-01-mid.html", "2026-03-01-mid.md"]


def test_nothing_shows_before_it_is_asked_for(hold: Any) -> None:
    _, shown = hold(["My answer."], minutes=4)
    assert "strong candidate" not in shown
    assert "listens for" not in shown


def test_what_went_wrong_is_due_in_the_quiz(hold: Any) -> None:
    hold([*BAD], minutes=4, topics=("basics",))
    assert soon() == {"own"}  # the question has a card of its own


def test_without_a_card_of_its_own_those_of_topic_and_level_are_due(hold: Any) -> None:
    hold([*BAD], level="senior", minutes=6, topics=("basics",))
    assert soon() == {"near"}


def test_what_went_right_makes_nothing_due(hold: Any) -> None:
    hold([*GOOD], minutes=4)
    assert soon() == set()


@pytest.mark.parametrize("end", [["q"], [], [KeyboardInterrupt], ["half", KeyboardInterrupt]])
def test_leaving_reports_what_was_answered(hold: Any, out: Path, end: list[Any]) -> None:
    status, shown = hold([*GOOD, *end], minutes=8)
    assert status == 0
    assert "3 of 3 points" in shown
    assert [done.rating for done in kept()[0].done] == ["rated"] + ["unrated"] * ("half" in end)
    assert len(files(out)) == 2


def test_leaving_at_once_leaves_no_report(hold: Any, out: Path) -> None:
    status, shown = hold(["q"])
    assert (status, kept(), out.exists()) == (0, [], False)
    assert "Nothing was answered" in shown


def test_a_skipped_question(hold: Any) -> None:
    _, shown = hold(["s", "", "q"], minutes=8)
    assert "Skipped." in shown
    assert kept()[0].done[0].rating == "skipped"


def test_time_that_runs_out_is_noted_and_cuts_nothing_off(hold: Any) -> None:
    _, shown = hold([*["line"] * 30, *GOOD], minutes=4)
    assert "1:20 over its 4 minutes" in shown  # 32 lines at ten seconds each
    assert "1 over time" in shown


def test_ticks_that_are_none_are_asked_for_again(hold: Any) -> None:
    _, shown = hold(["x", ".", "6", "one", "1,3", "", "3", "2", "", "2"], minutes=4)
    assert shown.count("Type numbers from 1 to 5") == 2
    assert "Type 0, 1 or 2." in shown
    assert [each.had for each in kept()[0].done[0].ticked] == [True, False, True, False, False]


def test_the_same_seed_asks_the_same_whatever_happened_meanwhile(hold: Any) -> None:
    hold(BAD, minutes=4, seed=None)
    _, shown = hold(GOOD, minutes=4, seed=None)
    assert f"--level mid --minutes 4 --seed {kept()[1].seed}\n" in shown
    hold(BAD, minutes=4, seed=kept()[1].seed)
    assert kept()[1].done[0].question == kept()[2].done[0].question != kept()[0].done[0].question


def test_answers_that_are_spoken_take_90_seconds_each(hold: Any, out: Path) -> None:
    status, shown = hold(["", "1", *["s", ""]], minutes=3, spoken=True)
    assert status == 0
    assert "Say your answer aloud, in 90 seconds" in shown
    assert "Follow-up" not in shown
    assert [(done.rating, done.minutes, done.earned) for done in kept()[0].done] == [
        ("rated", 1.5, 1),
        ("skipped", 1.5, 0),
    ]
    assert "--speak --seed 1" in (out / "2026-03-01-mid.md").read_text()


def test_a_round(hold: Any, out: Path) -> None:
    numbers = ["16000 GB", "h", "3", "2 days", "0.6", "50 %", "", "", "so", ".", "1 2"]
    typed = ["ask", ".", "a", *numbers, "d", ".", "a", "f", ".", "a", "w", ".", "a"]
    status, shown = hold(typed, level="senior", round="small")
    assert status == 0
    for words in (
        "10 minutes: the design round small in 5 stages", "The interviewer opens.",
        "1 of 5  small: Clarify: What for?",
        "Right: it is 16 TB.", "Multiply.", "too large, by a factor below 2", "half a point: it is 2 days",
        "Not found: it is 3 links",
        "A thousand times too little.",
    ):  # fmt: skip
        assert words in shown
    (interview,) = kept()
    assert interview.round == "small"
    assert interview.done[1].earned == 1 + 0.5 + 0.5 + 0 + 2 - 1
    text = (out / "2026-03-01-senior.md").read_text()
    assert "You said 3 and then 2 days; it is 2 days." in text
    assert soon() == {"drawn"}


def test_the_rounds_opening_is_said_once(hold: Any) -> None:
    _, shown = hold(["ask", ".", "a", "q"], level="senior", round="small")
    assert shown.count("The interviewer opens.") == 1


BAD_REQUESTS = {
    "level": ({"level": "junior"}, "no level is called 'junior'; choose from mid, senior, principal"),
    "no level": ({"level": ""}, "say which level you apply for: --level mid, senior or principal"),
    "a spoken round": ({"spoken": True, "round": "small"}, "a design round is answered in writing"),
    "no minutes": ({"minutes": 0}, "an interview takes 4 to 480 minutes, not 0"),
    "minutes that are none": ({"minutes": float("nan")}, "an interview takes 4 to 480 minutes, not nan"),
    "topic": ({"topics": ("basic",)}, "no topic is called 'basic'; did you mean 'basics'?"),
    "topic without question": ({"topics": ("silent",)}, "no interview question is about 'silent'"),
    "round": ({"round": "large"}, "no round is called 'large'; choose from small"),
    "minutes of a round": ({"round": "small", "minutes": 5}, "the round small takes 10 minutes"),
}


@pytest.mark.parametrize(("wanted", "said"), BAD_REQUESTS.values(), ids=BAD_REQUESTS)
def test_a_bad_request_is_one_sentence(hold: Any, wanted: dict[str, Any], said: str) -> None:
    with pytest.raises(DeckError, match=re.escape(said)):
        hold([], **wanted)
    assert not list((store.path().parent / "interviews").glob("*"))


def test_a_folder_that_cannot_be_written_is_said_before_the_first_question(hold: Any, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(DeckError, match="no report can be written there: Not a directory"):
        hold(GOOD, out=tmp_path / "file" / "below")
    assert kept() == []


def test_a_report_that_cannot_be_written_loses_nothing(hold: Any, monkeypatch: pytest.MonkeyPatch, out: Path) -> None:
    def full(path: Path, text: str) -> None:
        raise DeckError(f"{path}: the report cannot be written: No space left on device")

    monkeypatch.setattr(report, "write_whole", full)
    with pytest.raises(DeckError, match="No space left"):
        hold(GOOD, minutes=4)
    assert [done.earned for done in kept()[0].done] == [3]
    assert not list((store.path().parent / "interviews").glob("*"))


def test_a_report_never_overwrites_another(hold: Any, out: Path) -> None:
    for _ in range(2):
        hold(GOOD, minutes=4)
    assert files(out) == ["2026-03-01-mid-2.html", "2026-03-01-mid-2.md", "2026-03-01-mid.html", "2026-03-01-mid.md"]


def test_former_interviews_are_compared_with(hold: Any, out: Path) -> None:
    hold(BAD, minutes=4, topics=("basics",))
    _, shown = hold(GOOD, minutes=4, topics=("basics",))
    assert "3 of 3 points, 100%. Before: 33% (+67)." in shown
    assert "## Earlier interviews" in (out / "2026-03-01-mid-2.md").read_text()


def test_questions_of_the_last_interview_are_not_asked_again(hold: Any) -> None:
    hold([*GOOD, "q"], minutes=4, seed=None)
    hold([*GOOD, "q"], minutes=4, seed=None)
    one, other = (each.done[0].question for each in kept())
    assert one != other


def unfinished(finished: int = 1) -> None:
    """A journal of an interview that was cut off after so many questions."""
    from dataclasses import asdict

    done = asdict(DONE)
    header = to_json(Interview("key-of-its-own", "mid", 30, 7, NOON.isoformat(), "", 3))
    folder = store.path().parent / "interviews"
    folder.mkdir(parents=True)
    lines = [json.dumps(each) for each in [header, *[done] * finished]]
    (folder / "key-of-its-own.jsonl").write_text("\n".join(lines) + '\n{"task": "q-oth')


DONE = interview_from(
    {"key": "", "level": "", "minutes": 1, "seed": 1, "started": "", "ended": "", "planned": 1, "topics": [],
     "round": "",
     "done": [{"task": "q-easy", "question": "q-easy", "title": "basics", "area": "fundamentals", "topic": "basics",
               "level": "mid", "prompt": "An easy question?", "minutes": 4, "seconds": 100.0, "written": "was cut off",
               "rating": "rated", "ticked": [["a", True], ["b", False], ["c", False]], "guesses": [],
               "follow_ups": [["And?", None]], "hint_cost": 0.0, "round": ""}]}
).done[0]  # fmt: skip


def test_an_interview_that_was_cut_off_is_closed_by_the_next(hold: Any, out: Path) -> None:
    unfinished()
    _, shown = hold(["q"])
    assert "The last interview was cut off" in shown
    assert [(each.key, each.done) for each in kept()] == [("key-of-its-own", (DONE,))]
    assert soon() == {"own"}
    assert len(files(out)) == 2
    _, shown = hold(["q"])
    assert "cut off" not in shown
    assert len(kept()) == 1


def test_one_cut_off_before_its_first_answer_leaves_nothing(hold: Any, out: Path) -> None:
    unfinished(0)
    hold(["q"])
    assert (kept(), out.exists()) == ([], False)
    assert not list((store.path().parent / "interviews").glob("*"))


def test_one_that_was_kept_before_the_kill_is_not_kept_twice(hold: Any) -> None:
    unfinished()
    with store.opened() as progress:
        progress.keep_interview(to_json(replace(session_of(), done=(DONE,))), NOON)
    hold(["q"])
    assert len(kept()) == 1


def session_of() -> Interview:
    return Interview("key-of-its-own", "mid", 30, 7, NOON.isoformat(), NOON.isoformat(), 3)


def test_an_interview_that_lives_is_left_alone(hold: Any) -> None:
    living = journal.begin(store.path().parent / "interviews", session_of())
    living.add(DONE)
    hold(["q"])
    assert kept() == []
    living.close(remove=False)
    hold(["q"])
    assert len(kept()) == 1


def test_without_answers_there_is_no_interview(course: session.Course, out: Path) -> None:
    bare = replace(course, questions=())
    with pytest.raises(DeckError, match="there is no interview question with an answer here"):
        session.run(bare, session.Request("mid", out=out, plain=True))
