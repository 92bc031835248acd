"""When nodes are lost and let in, by file operations alone; and which lines of the logs count."""

from __future__ import annotations

import json
import os
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from grader.exercise import Draw
from grader.exercises.train_elastic import cases
from grader.exercises.train_elastic.in_box import Nemesis
from grader.exercises.train_elastic.jobs import Job, chart
from grader.ranks.lives.torchrun import Nodes, lines
from grader.ranks.lives.watch import Step, Strike
from grader.trace.gantt import svg

CASES = {case.group: case for case in cases(Draw(1))}
FIRST, SECOND, NEW = 101, 102, 103  # processes: workers of nodes 0 and 1, and a later one of node 1


class Played:
    """A Nemesis, and a script's file operations, each told to it before it is done."""

    def __init__(
        self, folder: Path, loss: list[Any] | None, join: int | None, began: int = 2, late: bool = False
    ) -> None:  # fmt: skip
        self.folder = folder / "work"
        self.folder.mkdir()
        for node in range(began):
            (folder / f"agent-{node}").write_text(str(1000 + node))
        self.scratch = folder
        self.nemesis = Nemesis(self.folder, Nodes(folder), began, loss, join, late)

    def line(self, node: int, step: int, world: int = 2, process: int = 0, rank: int | None = None) -> Strike:
        rank = node if rank is None else rank
        asked = Step(node, "write", f"steps-{rank}.jsonl", True, 80, process or (FIRST, SECOND)[node])
        struck = self.nemesis(asked)
        if not struck:
            with (self.folder / asked.name).open("a") as log:
                log.write(json.dumps({"step": step, "rows": [step], "world": world, "attempt": 1}) + "\n")
        return struck

    def write(self, node: int, call: str, name: str, text: str | None) -> Strike:
        struck = self.nemesis(Step(node, call, name, True, 8, (FIRST, SECOND)[node]))
        if not struck and text is not None:
            (self.folder / name).write_text(text)
        return struck

    def checkpoint(self, node: int, step: int) -> list[str]:
        """A safe one: the calls before which the node was killed."""
        new = self.folder / "new"
        for call, text in (("openat", ""), ("write", f"{step}"), ("fsync", None)):
            if self.write(node, call, "new", text):
                return [call]
        if self.write(node, "rename", "kept", None):
            return ["rename"]
        os.replace(new, self.folder / "kept")
        return []


def test_the_node_that_writes_checkpoints_is_lost_before_its_line(tmp_path: Path) -> None:
    job = Played(tmp_path, ["line", 3, 0], None)
    for step in range(3):
        assert not job.line(1, step)
        assert not job.line(0, step)
        assert not job.checkpoint(0, step)
    assert job.line(1, 3) is False
    assert job.line(0, 3) == "rank"
    assert (tmp_path / "over-1000").exists()
    assert not (tmp_path / "over-1001").exists()
    assert [(told["what"], told["node"], told["rank"]) for told in job.nemesis.done] == [("loss", 0, 0)]


def test_a_node_is_lost_later_where_nobody_writes_checkpoints(tmp_path: Path) -> None:
    job = Played(tmp_path, ["line", 3, 0], None)
    assert [step for step in range(8) if job.line(1, step)][:1] == [5]


def test_the_node_that_writes_no_checkpoints_is_held_before_its_line_and_then_lost(tmp_path: Path) -> None:
    job = Played(tmp_path, ["other", 3, 0], None)
    for step in range(3):
        assert not job.line(1, step)
        assert not job.line(0, step)
        assert not job.checkpoint(0, step)
    assert job.line(1, 3) == "later"
    assert job.line(0, 3) is False  # it writes checkpoints
    assert not job.checkpoint(0, 3)
    assert job.line(1, 3) == "rank"
    assert (tmp_path / "over-1001").exists()
    assert [(told["what"], told["node"], told["rank"]) for told in job.nemesis.done] == [("loss", 1, 1)]


def test_where_both_nodes_write_checkpoints_the_second_is_held_a_step_later(tmp_path: Path) -> None:
    job = Played(tmp_path, ["other", 1, 0], None)
    held = []
    for step in range(3):
        for node in (0, 1):
            held += [(node, step)] if job.line(node, step) else []
            job.checkpoint(node, step)
    assert held == [(1, 2)]


@pytest.mark.parametrize(("drawn", "call"), [(0, "write"), (1, "fsync"), (2, "rename"), (3, "write")])
def test_a_safe_checkpoint_is_cut_off_where_it_was_drawn(tmp_path: Path, drawn: int, call: str) -> None:
    job = Played(tmp_path, ["checkpoint", 2, drawn], None)
    killed: list[str] = []
    for step in range(4):
        assert not job.line(0, step)
        killed += job.checkpoint(0, step)
        if killed:
            break
    assert (step, killed) == (3, [call])


def test_a_checkpoint_in_place_is_cut_off_when_it_is_torn(tmp_path: Path) -> None:
    job = Played(tmp_path, ["checkpoint", 1, 0], None)
    for step in range(2):
        assert not job.line(0, step)
        assert not job.write(0, "openat", "kept", "")
        struck = job.write(0, "write", "kept", "state")
        assert struck == ("rank" if step == 1 else False)


def test_a_checkpoint_is_cut_off_when_the_one_before_is_deleted(tmp_path: Path) -> None:
    job = Played(tmp_path, ["checkpoint", 1, 0], None)
    job.line(0, 0)
    job.checkpoint(0, 0)
    job.line(0, 1)
    assert not job.write(0, "openat", "new", "state")
    assert not job.write(0, "unlink", "kept", None)
    (job.folder / "kept").unlink()
    assert job.write(0, "rename", "kept", None) == "rank"


def test_a_node_is_let_in_between_the_first_line_after_a_loss_and_its_checkpoint(tmp_path: Path) -> None:
    job = Played(tmp_path, ["line", 1, 0], 1)
    for node in (0, 1):
        job.line(node, 0)
    job.checkpoint(0, 0)
    assert job.line(0, 1) == "rank"
    assert job.line(1, 1) is False  # the line of the step that was cut off, by a worker that is about to fail
    assert job.line(1, 1, process=NEW, rank=1) is False  # its first line
    assert not (tmp_path / "join").exists()
    assert job.nemesis(Step(1, "openat", "new", True, 8, NEW)) == "hold"  # before there is a checkpoint of that step
    assert (tmp_path / "join").exists()
    assert job.line(1, 2, process=NEW, rank=1) is False  # once it is told to end it may write what it wants


def again(tmp_path: Path) -> Played:
    """A job that has lost a node and let another in, and whose workers start again."""
    job = Played(tmp_path, ["line", 1, 0], 1)
    (job.folder / "starts").write_text("2")
    (tmp_path / "agent-2").write_text("1002")
    for node in (0, 1):
        job.line(node, 0)
    job.checkpoint(0, 0)
    assert job.line(0, 1) == "rank"
    assert job.line(1, 1, process=NEW, rank=0) is False
    assert job.nemesis(Step(1, "openat", "new", True, 8, NEW)) == "hold"
    return job


def test_a_node_is_lost_in_a_start_that_has_emptied_a_file(tmp_path: Path) -> None:
    job = again(tmp_path)
    worker = NEW + 1
    assert job.nemesis(Step(1, "openat", "starts", True, 0, worker)) is False
    (job.folder / "starts").write_text("")
    assert job.nemesis(Step(2, "openat", "other", True, 0, worker + 1)) is False  # the other worker did not do it
    assert job.nemesis(Step(1, "write", "starts", True, 1, worker)) == "rank"
    assert [(told["what"], told["node"], told["broken"]) for told in job.nemesis.done] == [
        ("loss", 0, ""), ("join", 2, ""), ("loss", 1, "starts was empty"),
    ]  # fmt: skip


def test_no_node_is_lost_in_a_start_that_damages_nothing(tmp_path: Path) -> None:
    job = again(tmp_path)
    worker = NEW + 1
    for call, name in (("openat", "starts.new"), ("write", "starts.new"), ("rename", "starts")):
        assert job.nemesis(Step(1, call, name, True, 1, worker)) is False
        (job.folder / name).write_text("33")
    assert job.line(1, 1, process=worker, rank=0) is False
    assert job.nemesis(Step(1, "openat", "starts", True, 0, worker)) is False
    (job.folder / "starts").write_text("")
    assert job.nemesis(Step(1, "write", "starts", True, 1, worker)) is False  # it has begun


def test_a_node_is_let_in_before_the_final_parameters_by_a_worker_that_has_begun_since(tmp_path: Path) -> None:
    job = Played(tmp_path, ["line", 1, 0], None, late=True)
    for node in (0, 1):
        job.line(node, 0)
    job.checkpoint(0, 0)
    assert job.line(0, 1) == "rank"
    assert job.write(1, "openat", "final.new", None) is False  # by a worker that is about to fail
    assert job.line(1, 1, process=NEW, rank=0) is False
    assert not (tmp_path / "join").exists()
    assert job.nemesis(Step(1, "openat", "final.new", True, 8, NEW)) == "hold"
    assert (tmp_path / "join").exists()
    assert job.nemesis.end == {"call": "openat final.new", "attempt": 1}
    assert job.nemesis(Step(1, "openat", "final.new", True, 8, NEW)) is False


def test_lines_that_are_none_are_told_as_such(tmp_path: Path) -> None:
    log = tmp_path / "steps-0.jsonl"
    log.write_text('{"step": 1, "rows": [4], "world": 2, "attempt": 3}\n[1]\n{"step": 2, "rows": [], "world": 1}\nno\n')
    assert lines(log, "world", "attempt") == [[1, [4], 2, 3], [], [], []]


def told(logs: list[list[Any]], events: list[dict[str, Any]]) -> Job:
    ended = {"ending": "finished", "raised": [], "events": events, "logs": logs, "final": {}}
    return Job(SimpleNamespace(case=CASES["loss"]), ended)  # type: ignore[arg-type]


def test_lines_are_told_apart_by_what_happened_in_between() -> None:
    before = [[[0, [1], 2, 1], [1, [2], 2, 1]], [[0, [3], 2, 1]]]
    event = {"what": "loss", "node": 1, "rank": 1, "call": "write steps-1.jsonl", "logs": before}
    job = told([[*before[0], [1, [2, 4], 1, 2]], before[1]], [event])
    assert job.stretches == [[{0: [1], 1: [1]}, {0: [1]}], [{1: [2]}, {}]]


def test_of_each_step_the_greatest_attempt_counts() -> None:
    before = [[[0, [1], 2, 1], [1, [2], 2, 1]], [[0, [3], 2, 1]]]
    logs = [[*before[0], [1, [2, 4], 1, 2], [2, [5], 1, 2], [2, [5], 1, 2]], before[1]]
    event = {"what": "loss", "node": 1, "rank": 1, "call": "write steps-1.jsonl", "logs": before}
    job = told(logs, [event])
    assert {step: (done.attempt, done.rows, done.twice) for step, done in job.done.items()} == {
        0: (1, [1, 3], None), 1: (2, [2, 4], None), 2: (2, [5, 5], 0),
    }  # fmt: skip
    assert [(rank, line[0]) for rank, line in job.after(0)] == [(0, 1), (0, 2), (0, 2)]
    assert (job.events[0].reached, job.events[0].attempt) == (0, 1)
    drawn = chart(job)
    assert drawn.lanes == ("node 0", "node 1")
    assert drawn.gone == {"node 1": 2.0}
    assert [(bar.lane, bar.text) for bar in drawn.bars] == [
        ("node 0", "world 2: 0-1"), ("node 1", "world 2: 0"), ("node 0", "1"),
        ("node 0", "world 1: 2"),
    ]  # fmt: skip
    assert "the node is killed" in svg(drawn)
