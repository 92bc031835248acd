"""How runs of log nodes are judged: answers of the wrong shape, and what clients may not see."""

from __future__ import annotations

from typing import Any

import pytest

from grader.exercises.common.scenes import Script
from grader.exercises.replicated_log.judging import unsafe
from grader.exercises.replicated_log.scene import Logs
from grader.nodes.actors import Local
from grader.nodes.bench import NodeBench
from grader.nodes.node import Node
from grader.nodes.plan import Plan, Played, play
from grader.nodes.sim import cluster
from grader.submission import Submission
from grader.verdict import Diagnosis


class Scripted(Node):
    """Answers what the request says."""

    def on_message(self, src: str, body: dict[str, Any]) -> None:
        self.reply(body, body["answer"])


def judged(*asks: tuple[str, dict[str, Any], dict[str, Any]]) -> Diagnosis | None:
    """What is wrong with these requests, one after another: (node, body, answer)."""
    bench = NodeBench(None, Submission("x.py", ""), ("Scripted",), (), 1, 1)  # type: ignore[arg-type]

    def script(scene: Logs) -> Script:
        for node, body, answer in asks:
            yield from scene.served(scene.request(node, {**body, "answer": answer}))

    def prepare(played: Played) -> None:
        played.notes = Logs(played, bench)
        played.notes.play(script(played.notes))

    played = play(Plan(cluster(3, "Scripted"), until=30.0), Local({"Scripted": Scripted}, ()), "x.py", prepare)
    found = unsafe(played.notes)
    return found or played.notes.found


SEND = {"type": "send", "key": "k", "msg": "some message"}
POLL = {"type": "poll", "offsets": {"k": 0}}


def test_a_right_run() -> None:
    shown = {"type": "poll_ok", "msgs": {"k": [[3, "some message"]]}}
    assert judged(("n1", SEND, {"type": "send_ok", "offset": 3}), ("n2", POLL, shown)) is None


@pytest.mark.parametrize(
    ("answer", "kind"),
    [
        ({"type": "poll_ok", "msgs": []}, "wrong_result"),
        ({"type": "poll_ok"}, "wrong_result"),
        ({"type": "send_ok", "offset": 1}, "wrong_result"),
        ({"type": "error", "code": "11"}, "wrong_result"),
        ({"type": "error", "code": 20}, "wrong_result"),
        ({"type": "error", "code": 11}, "not_available"),
        ({"type": "poll_ok", "msgs": {"k": [[3, "another"]]}}, "lost_or_duplicated"),
        ({"type": "poll_ok", "msgs": {"k": [[4, "some message"]]}}, "lost_or_duplicated"),
    ],
)
def test_answers_that_are_wrong(answer: dict[str, Any], kind: str) -> None:
    found = judged(("n1", SEND, {"type": "send_ok", "offset": 3}), ("n2", POLL, answer))
    assert found is not None
    assert found.kind == kind


def test_the_sentence_says_how_few_nodes_had_it() -> None:
    shown = {"type": "poll_ok", "msgs": {"k": [[3, "another"]]}}
    found = judged(("n1", SEND, {"type": "send_ok", "offset": 3}), ("n2", POLL, shown))
    assert found is not None
    assert 'When n1 acknowledged "some message", only 1 node of 3 had ever got it: n1.' in found.message
