"""Nodes stepped by a reader: what can happen in a state, and what comes of it."""

from __future__ import annotations

from typing import Any

import pytest

from courselib import commit, election, figures
from courselib.stepper import Impossible, Stepper
from grader.nodes.node import Node
from grader.nodes.sim import Member


def electors(**asks: Any) -> Stepper:
    return Stepper({"Elector": election.Elector}, [Member(f"n{k}", "Elector") for k in (1, 2, 3)], asks)


def after(run: Stepper, line: str) -> Any:
    state = run.begin()
    for action in run.named(line):
        state = run.after(state, action)
    return state


def test_a_crash_leaves_the_disk_and_takes_the_rest() -> None:
    run = electors()
    state = after(run, "timer n1; n1>n2; crash n2")
    assert run.view(state, 1)["vars"]["voted"] == "n1"
    assert not any(action[:3] == ("deliver", "n1", "n2") for action in run.actions(state))
    assert run.view(after(run, "timer n1; n1>n2; crash n2; restart n2"), 1)["vars"]["voted"] == ""


def test_who_is_cut_off_gets_nothing_from_nodes_and_answers_clients() -> None:
    run = electors(c=[("n1", {"type": "read"})])
    with pytest.raises(Impossible, match=r"After 2 steps there is no 'n1>n2'\."):
        run.named("timer n1; cut n1; n1>n2")
    state = after(run, "timer n1; cut n1; c; c>n1; heal n1; n1>n2")
    assert [(who, "not the leader" in text) for who, text in state.heard] == [("c", True)]


def test_messages_alike_are_each_delivered_once() -> None:
    class Twice(Node):
        def on_start(self) -> None:
            self.got = 0
            if self.id == "n1":
                for _ in range(2):
                    self.send("n2", {"type": "hello"})

        def on_message(self, src: str, body: dict[str, Any]) -> None:
            self.got += 1
            if self.got == 2:
                raise RuntimeError("enough")

    run = Stepper({"Twice": Twice}, [Member("n1", "Twice"), Member("n2", "Twice")])
    state = after(run, "n1>n2")
    assert (len(state.messages), run.view(state, 1)["vars"]) == (1, {"got": 1})
    with pytest.raises(Impossible, match=r"n2 raised RuntimeError: enough"):
        run.after(state, run.actions(state)[0])


def test_a_record_leads_where_the_steps_do() -> None:
    run = Stepper(commit.KINDS, commit.banks("A B"), {"client": [("coord", {"type": "begin"})]})
    line = run.named("client; client>coord; coord>A; drop coord>B")
    states = run.around([line], 60)
    frames = run.record(states, targets=True)["frames"]
    assert len(states) == 60
    assert all(
        to == -1 or run.after(state, action) == states[to]
        for state, frame in zip(states, frames, strict=True)
        for action, to in zip(run.actions(state), frame["to"], strict=True)
    )
    at = 0
    for action in line:
        at = frames[at]["to"][run.actions(states[at]).index(action)]
    assert at > 0


@pytest.mark.parametrize(
    ("line", "wrong"),
    [
        ("timer n1; n1>n2; n2>n1; cut n1; timer n2; n2>n3; n3>n2", ""),
        ("timer n1; n1>n2; n2>n1; crash n2; restart n2; timer n3; n3>n2; n2>n3", "n1 and n3 both lead in term 1"),
    ],
)
def test_a_kernel_answers_what_a_reader_wishes(line: str, wrong: str) -> None:
    made = figures.election_in_terms()
    made.wish = [list(action) for action in electors().named(line)]
    assert made.seen["record"]["frames"][0]["wrong"] == wrong
    made.wish = [["crash", "n1"], ["timer", "n1"]]
    assert made.seen["failed"] == "timer n1 cannot happen here."


def test_impatient_banks_end_differently() -> None:
    made = figures.two_phase_commit(impatient=True)
    run = Stepper(commit.KINDS, commit.banks("A B", impatient=True), {"client": [("coord", {"type": "begin"})]})
    line = "client; client>coord; coord>A; coord>B; A>coord; B>coord; coord>A; timer B"
    made.wish = [list(action) for action in run.named(line)]
    assert made.seen["record"]["frames"][0]["wrong"] == "A committed, B aborted"
