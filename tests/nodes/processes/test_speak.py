"""A Node class as a process: the protocol, timers, and a disk that outlasts SIGKILL."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any

import pytest
from cluster_runs import environment, play, speaking
from hypothesis import given, settings
from hypothesis import strategies as st

from grader.nodes.disk import Disk
from grader.nodes.speak import World

KILLS = {"kinds": ("kill-all",), "interval": 0.5, "seconds": 1.5, "seed": 4}
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=5,
)


@pytest.mark.heavy
def test_what_is_on_disk_outlasts_a_kill_of_all_nodes() -> None:
    outcome = play("g-set", speaking("durable_set.py:Durable"), **KILLS)
    assert any(fault.what == "down" for fault in outcome.faults)
    assert outcome.right, outcome.judgement.reason
    assert "this goes to stderr" in outcome.logs["n1"]
    assert outcome.logs["n1"].count("started") > 1


@pytest.mark.heavy
def test_what_is_in_memory_only_is_lost_with_it() -> None:
    outcome = play("g-set", speaking("durable_set.py:Forgetful"), settle_seconds=0.5, **KILLS)
    assert outcome.judgement.valid is False
    assert "did not have" in outcome.judgement.reason


def test_a_handler_that_fails_is_a_crash() -> None:
    outcome = play("echo", speaking("durable_set.py:Broken"), nodes=1, seconds=20)
    assert outcome.trouble is not None
    assert outcome.trouble.kind == "crash"
    assert "ValueError: a handler failed" in outcome.trouble.message


BAD = {
    "nowhere.py:Durable": "no such file",
    "durable_set.py": "FILE.py:CLASS",
    "durable_set.py:Missing": "Missing is not a Node class",
    "durable_set.py:NotANode": "NotANode is not a Node class",
}


@pytest.mark.parametrize(("what", "words"), BAD.items())
def test_a_class_that_there_is_not_is_one_sentence(what: str, words: str) -> None:
    done = subprocess.run(speaking(what), capture_output=True, text=True, env=environment("none"), timeout=60)
    assert done.returncode == 2
    assert words in done.stderr
    assert "Traceback" not in done.stderr


def test_lines_that_are_no_messages_are_told_of_and_passed_over(tmp_path: Path) -> None:
    lines = ["rubbish", '{"src": "c1", "dest": "n1", "body": {"type": "read", "msg_id": 1}}',
             '{"src": "c0", "dest": "n1", "body": {"type": "init", "msg_id": 1, "node_id": "n1", "node_ids": ["n1"]}}',
             '{"src": "c1", "dest": "n1", "body": {"type": "add", "msg_id": 1, "element": 7}}']  # fmt: skip
    done = subprocess.run(
        [*speaking("durable_set.py:Durable"), "--disk", str(tmp_path / "disk")],
        input="\n".join(lines) + "\n",
        capture_output=True,
        text=True,
        env=environment("none"),
        timeout=60,
    )
    assert done.returncode == 0
    answers = [json.loads(line) for line in done.stdout.splitlines()]
    assert answers[0] == {"src": "n1", "dest": "c0", "body": {"type": "init_ok", "in_reply_to": 1}}
    assert answers[-1] == {"src": "n1", "dest": "c1", "body": {"type": "add_ok", "in_reply_to": 1}}
    assert "not JSON" in done.stderr
    assert "the first message must be init" in done.stderr
    assert Disk(tmp_path / "disk" / "n1.jsonl")["values"] == [7]


def test_a_timer_has_one_time_and_can_be_cancelled() -> None:
    world = World(0, 1)
    for name, after in (("a", 0.0), ("b", 0.0), ("c", 0.0), ("a", 0.0), ("c", 1000.0)):
        world.set_timer(name, after)
    world.cancel_timer("b")
    world.cancel_timer("unknown")
    assert [world.due(), world.due()] == ["a", None]


@settings(max_examples=40)
@given(st.lists(st.tuples(st.sampled_from("abc"), JSON | st.just(...)), max_size=8), st.data())
def test_a_disk_holds_what_was_assigned_wherever_a_crash_cuts_its_log(
    tmp_path_factory: Any, steps: Any, data: Any
) -> None:
    path = tmp_path_factory.mktemp("disk") / "n1.jsonl"
    disk = Disk(path)
    states: list[dict[str, Any]] = [{}]
    sizes = [0]
    for key, value in steps:
        state = dict(states[-1])
        if value is ...:
            state.pop(key, None)
            disk.pop(key, None)
        else:
            state[key] = value
            disk[key] = value
        assert dict(disk) == state
        states.append(state)
        sizes.append(path.stat().st_size)
    disk.close()
    cut = data.draw(st.integers(0, sizes[-1]))
    path.write_bytes(path.read_bytes()[:cut])
    again = Disk(path)
    whole = max(number for number, size in enumerate(sizes) if size <= cut)
    assert dict(again) == states[whole]
    again["more"] = 1
    again.close()
    assert dict(Disk(path)) == {**states[whole], "more": 1}


def test_what_is_read_from_a_disk_is_a_copy(tmp_path: Path) -> None:
    disk = Disk(tmp_path / "n1.jsonl")
    mine = {"log": [1]}
    disk["state"] = mine
    mine["log"].append(2)
    disk["state"]["log"].append(3)
    assert disk["state"] == {"log": [1]}


@pytest.mark.parametrize(("key", "value"), [(1, 1), ("a", {1, 2}), ("a", float("nan")), ("a", b"bytes")])
def test_a_disk_refuses_what_json_has_not(tmp_path: Path, key: Any, value: Any) -> None:
    disk = Disk(tmp_path / "n1.jsonl")
    with pytest.raises(TypeError):
        disk[key] = value
    assert dict(disk) == {}
