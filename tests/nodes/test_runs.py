"""What a judge sees of a run of nodes, and of the registers that clients read and wrote in it."""

from __future__ import annotations

import random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from grader.nodes import Node, registers
from grader.nodes.actors import Local
from grader.nodes.clients import Ask, Asked
from grader.nodes.histories.checker import linearizable
from grader.nodes.histories.history import pair
from grader.nodes.plan import Mishap, Plan, Played, play
from grader.nodes.runs import Run, answer_text, in_time, judging, place, same, served
from grader.nodes.sim import cluster
from grader.verdict import Diagnosis

HALVES = (("n1", "n2"), ("n3",))


class Asks(Node):
    """Asks the others before it answers; a request to n3 is answered without in_reply_to."""

    def on_start(self) -> None:
        self.open: dict[str, Any] = {}

    def on_message(self, src: str, body: dict[str, Any]) -> None:
        match body["type"]:
            case "write":
                self.open = {"src": src, "body": body}
                for peer in self.peers:
                    self.send(peer, {"type": "store"})
            case "store" if self.id != "n3":
                self.send(src, {"type": "stored"})
            case "stored" if self.open and self.id != "n3":
                self.reply(self.open["body"], {"type": "write_ok"})
                self.open = {}
            case "stored":
                self.send("c3", {"type": "write_ok"})


def ask(node: str, at: float) -> tuple[Ask, ...]:
    return (Ask(node, {"type": "write", "key": "x", "value": int(at)}, at=at),)


@pytest.fixture(scope="module")
def run() -> Run:
    mishaps = (Mishap("partition", 5, 10, HALVES), Mishap("crash", 12, 14, (("n2",),)))
    asks = {"c1": ask("n1", 1), "c2": ask("n1", 7), "c3": ask("n3", 11), "c4": ask("n2", 13)}
    return Run(
        play(Plan(cluster(3, "Asks"), asks, mishaps, healed=20, until=25, label="all"), Local({"Asks": Asks}), "x.py")
    )


def test_requests_come_in_order_with_their_messages(run: Run) -> None:
    assert [one.client for one in run.asked] == ["c1", "c2", "c3", "c4"]
    first = run.asked[0]
    assert first.request is not None
    assert first.reply is not None
    assert (first.request.dst, first.request.sent, first.reply.arrived) == ("n1", first.sent, first.answered)
    assert [in_time(one, 2) for one in run.asked] == [True, True, False, False]
    assert [answer_text(one) for one in run.asked] == ['{"type": "write_ok"}'] * 2 + ["{}"] * 2


def test_who_was_up_and_back(run: Run) -> None:
    assert run.up("n2", 0, 11.9)
    assert not run.up("n2", 0, 12)
    assert not run.up("n2", 14, 15)
    assert not run.up("n1", -1, 1), "before the run nobody is up"
    assert run.down("n2", 12.5, 13.5) == (12, 14)
    assert run.down("n2", 11, 13) is None
    assert (run.back("n2", 13), run.back("n2", 20), run.back("n1", 20)) == (0, 14, 0)


def test_who_could_reach_whom(run: Run) -> None:
    (cut,) = run.cuts
    assert run.side("n1", 5, 10) == (cut, ("n1", "n2"))
    assert run.side("n1", 4, 6) is None
    assert run.minority("n1", 6, 7) is None
    assert run.minority("n3", 6, 7) == (cut, ("n3",))
    assert [run.uncut_since(*span) for span in ((0, 5), (4, 6), (10, 11))] == [0, None, 10]
    assert run.whole_since == 20


def test_what_was_sent(run: Run) -> None:
    one, other, stray, lost = run.asked
    assert run.heard(one) <= {"n2", "n3"}
    assert run.heard(other) == {"n2"}, "n3 is cut off"
    assert run.heard(lost) == {"n1", "n2", "n3"}, "nothing is known of a request without an answer"
    assert {sent.type for sent in run.strays(stray)} == {"write_ok"}
    assert run.strays(one) == []
    assert {sent.dst for sent in run.between(6, 9)} == {"n1", "n2", "n3"}
    assert {sent.src for sent in run.reached("n3", 6, 9)} == set()
    assert [sent.dst for sent in run.replies("c1", lambda sent: sent.type == "write_ok")] == ["c1"]


def test_what_is_wrong_is_marked_and_has_the_line_of_the_last_answer(run: Run) -> None:
    one = run.asked[0]
    run.story.marked.clear()
    found = run.wrong("wrong_result", "No.", title="Wrong", shown=[None, one], expected="1", got="2")
    assert one.request is not None
    assert one.reply is not None
    assert run.story.marked == {one.request.number, one.reply.number}
    assert (run.story.title, run.story.subtitle) == ("Wrong", "all")
    assert found == Diagnosis("wrong_result", "No.", None, "x.py", one.reply.line, "1", "2")
    assert one.reply.line
    assert run.wrong("wrong_result", "No.", shown=[one], line=3).line == 3
    assert run.wrong("wrong_result", "No.", shown=[one, run.asked[2]]).line is None
    assert place(one.reply.line) == f" (line {one.reply.line})"
    assert place(None) == ""


def test_the_first_judge_that_finds_something(run: Run) -> None:
    wrong = Diagnosis("wrong_result", "1")

    def never(run: Run) -> Diagnosis | None:
        return None

    def raises(run: Run) -> Diagnosis | None:
        raise AssertionError

    played: Played = run.played
    assert judging(Run, never, lambda _: wrong, raises)(played) is wrong
    assert judging(Run, never)(played) is None


def test_requests_as_the_messages_show_them(run: Run) -> None:
    found = {one.client: one for one in served(run.story)}
    assert found["c1"].answer is run.asked[0].reply
    assert (found["c1"].node, found["c4"].came, found["c4"].answer) == ("n1", found["c4"].came, None)
    assert same({"a": 1, "b": 2}, {"b": 2, "a": 1})
    assert not same(1, True)


# ---- registers


def asked(kind: str, begin: float, end: float | None, value: Any, answer: str = "") -> Asked:
    body = {"type": kind, "key": "x"} | ({"value": value} if kind == "write" else {})
    told = {"type": answer or f"{kind}_ok"} | ({"value": value} if kind == "read" else {})
    return Asked("c1", Ask("n1", body), begin, None if end is None else told, end)


def test_operations_of_requests() -> None:
    refused = Asked("c1", Ask("n1", {"type": "write", "key": "x", "value": 3}), 1, {"type": "error", "code": 11}, 2)
    missing = Asked("c1", Ask("n1", {"type": "read", "key": "x"}), 2, {"type": "error", "code": 20}, 3)
    swap = Asked("c1", Ask("n1", {"type": "cas", "key": "x", "from": 1, "to": 2}), 3, {"type": "cas_ok"}, 4)
    other = Asked("c1", Ask("n1", {"type": "begin"}), 4)
    found = registers.operations([swap, missing, refused, asked("write", 0, None, 5), asked("read", 0, None, 5), other])
    assert [(one.what, one.value, one.end, one.done) for one in found] == [
        ("write", "5", registers.NEVER, None), ("write", "3", registers.NEVER, False), ("read", "null", 3, True),
        ("write", "2", 4, True),
    ]  # fmt: skip


@given(st.integers(0, 2**32))
def test_a_conflict_is_found_exactly_where_the_search_finds_no_order(seed: int) -> None:
    """Values are written once each, as the checker of registers needs it."""
    rng, requests, events = random.Random(seed), [], []
    for number in range(rng.randint(1, 9)):
        begin = rng.uniform(0, 10)
        end = None if rng.random() < 0.15 else begin + rng.uniform(0.1, 6)
        kind = rng.choice(("read", "write"))
        value = number if kind == "write" else rng.choice([None, *range(6)])
        requests.append(asked(kind, begin, end, value))
        event = {"process": number, "f": kind, "key": "x"}
        events.append({**event, "type": "invoke", "value": None if kind == "read" else value, "time": begin})
        if end is not None:
            events.append({**event, "type": "ok", "value": value, "time": end})
    events.sort(key=lambda event: event["time"])
    conflict = registers.conflict(registers.operations(requests))
    assert (conflict is None) == (linearizable(pair(events), "register").valid is True)
