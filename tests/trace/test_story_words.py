"""Stories of clusters of nodes in words: every kind of thing that happens is said, step by step or moment by moment."""

from __future__ import annotations

import pytest
from stories import STORIES, Telling, everything

from grader.trace import storyboard

SAID = {
    "a message": "0.1 s: c1 asks: write x=1. alpha sends hello k=[1,2] to beta (line 20). ",
    "a duplicate": "The network duplicates hello k=[1,2] from alpha to beta.",
    "its arrival": "0.15 s: c1 knows: write x=1. beta gets hello k=[1,2] from alpha.",
    "dropped": "sends dropped one to gamma (line 20; dropped)",
    "cut off": "beta sends cut one to gamma (line 20; cut off)",
    "lost": "0.56 s: alpha is down: lost one from gamma is lost.",
    "to nobody": "gamma sends to nobody to omega (line 20; there is no such node)",
    "under way": "beta sends late to alpha (line 20; still under way at the end)",
    "a fault begins": "0.28 s: Begins: partition: alpha beta | gamma.",
    "a fault ends": "Ends: partition: alpha beta | gamma.",
    "a crash": "0.53 s: alpha crashes.",
    "a restart": "0.58 s: alpha restarts.",
    "a pause": "gamma stands still",
    "a resume": "0.9 s: gamma goes on.",
    "a timer": "gets timer tick",
    "a write": "writes m deleted to disk (line 31)",
    "a state": "is now: role = leader",
    "an exception": "0.95 s: beta raises KeyError.",
    "a note": "notes: all is well",
    "an answer": "0.85 s: alpha answers read_ok to c1.",
    "given up": "c1 gives up: write x=4 ?",
    "a start": "0 s: alpha starts. beta starts. gamma starts.",
}  # fmt: skip


@pytest.mark.parametrize("told", SAID.values(), ids=SAID.keys())
def test_each_kind_is_said_in_words(told: str) -> None:
    said = storyboard.words(everything())
    assert any(told in sentence for sentence in said), said


def test_words_of_steps_have_an_entry_a_step() -> None:
    story = STORIES["quorum"]()
    said = storyboard.words(story)
    assert len(said) == 13
    assert said[0] == "c1 asks n1: write x=2."
    assert said[12] == "c2 gets read_ok 1 from n3, knows: read x → 1."


def test_own_words_come_first() -> None:
    said = storyboard.words(STORIES["two phases"]())
    assert said[6] == "The schedule's own words for step 7."
    assert said[8] == "n0 crashes (after 1 of 3 sends)."
    assert len(said) == 20


def test_what_happens_between_two_steps_belongs_to_the_first() -> None:
    tell = Telling("n1", "c1", unit="step")
    tell.send("c1", "n1", 1, 3, "read", key="x")
    tell.send("n1", "c1", 3, 3.5, "read_ok", value=1)
    said = storyboard.words(tell.done(4))
    assert said == [
        "c1 sends read x to n1 (line 20).",
        "Nothing happens.",
        "n1 gets read x from c1, sends read_ok 1 to c1 (line 20). c1 gets read_ok 1 from n1.",
    ]


def test_words_in_seconds_leave_out_what_repeats() -> None:
    story = STORIES["election"]()
    said = storyboard.words(story)
    assert len(said) < 120 < len(story.sent)
    assert sum("append_entries term" in sentence for sentence in said) < 40
