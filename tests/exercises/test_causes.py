"""Sentences about wrong results, by the mistake that was made: what is said, and what must not be."""

from __future__ import annotations

import pytest

from grader.authoring import verdicts, wrong
from grader.grading import grade, only
from grader.ranks.engines import Engines
from grader.registry import find
from grader.submission import Submission
from grader.verdict import Diagnosis
from grader.worlds.ranks import RankBench

Row = tuple[str, str, tuple[str, ...]]


def told(name: str, check: str, submission: Submission, engines: Engines) -> Diagnosis:
    found = grade(only(find(name), check), submission, engines, verdicts.SEED).check(check).diagnosis
    assert found is not None
    return found


RING: list[Row] = [
    ("gather_adds", "sum", ("receives chunk 0 finished", "must replace what is there", "line 22")),
    ("reduce_scatter_only", "sum", ("one finished chunk: this is a reduce-scatter, without the all-gather",)),
    ("wrong_chunk_added", "sum", ("Rank 0 adds chunk 2, which it receives from rank 2", "to chunk 1")),
    ("wrong_chunk_in_reduce", "sum", ("and then sends chunk", "'s values in it")),
    ("own_chunk_not_written", "sum", ("sends the finished chunk 0 to rank 1", "its own tensor does not hold it")),
    ("wrong_chunk_in_gather", "sum", ("then sends chunk 0, with rank 0's values only",)),
    ("replaces_instead_of_adding", "sum", ("without its own values",)),
    ("counted_twice", "sum", ("Rank 0 counts its own values twice before it receives anything",)),
    (
        "adds_before_the_wait",
        "sum",
        ("Rank 0 read a buffer", "that its irecv from rank 1", "Call wait() on that request"),
    ),
    (
        "adds_outside_of_the_tensor",
        "sum",
        ("Rank 0 sends the finished chunk 1 to rank 1", "x = x + y makes a new tensor"),
    ),
    ("polls_is_completed", "sum", ("asked 100,001 times in a row", "Call wait() on that request.")),
    ("reshape_of_a_slice", "any_layout", ("do not lie next to each other in memory", "x.contiguous()")),
    ("reduces_to_rank_0", "sum", ("No message brings rank 1 the finished element 0",)),
    ("float32_on_the_wire", "sum", ("what float32 cannot hold", "24 bits")),
    ("int64_through_float32", "any_length", ("what float32 cannot hold", "Keep int64")),
    ("int64_through_float64", "any_length", ("what float64 cannot hold", "53 bits")),
    ("int64_through_float64", "bytes", ("Not judged, because the sum is wrong.",)),
]
HIERARCHICAL: list[Row] = [
    ("shard_that_is_not_summed", "sum", ("before its own node has summed that part: only rank 0",
                                         "summed over the node on rank 0 is shard 1")),
    ("pieces_not_gathered", "sum", ("the all-gather between nodes is missing",)),
    ("shards_not_gathered", "sum", ("the all-gather inside the node is missing",)),
    ("inside_only", "sum", ("the exchange between nodes is missing",)),
    ("between_nodes_only", "sum", ("one a node",)),
    ("int64_through_float64", "any_length", ("what float64 cannot hold",)),
    ("nodes_first", "crossing", ("at least 2,048 bytes there, enough for an all-reduce of the whole tensor",)),
    ("pieces_by_rows", "crossing", ("whole rows of 3,072 bytes, and 1/M of a shard is 1,024",)),
]  # fmt: skip
ZERO: list[Row] = [
    ("idle_rank", "same", ("Rank 1 keeps no optimizer state: the optimizer there never steps.",)),
    ("never_gathered", "same", ("never gets the others'",)),
    ("none_not_copied_back", "skipped", ("only not copied back",)),
    ("state_lost_by_a_new_group", "groups", ("When a group was added, before step 4",)),
    ("own_gradients", "bytes", ("Not judged, because the parameters are wrong.",)),
]
ROWS = [(name, *row) for name, rows in (("ring_all_reduce", RING), ("hierarchical_all_reduce", HIERARCHICAL),
                                        ("zero_optimizer", ZERO)) for row in rows]  # fmt: skip


@pytest.mark.parametrize(("name", "mistake", "check", "words"), ROWS, ids=lambda value: str(value)[:40])
def test_a_mistake_is_told_for_what_it_is(
    name: str, mistake: str, check: str, words: tuple[str, ...], engines: Engines
) -> None:
    message = told(name, check, wrong.find(f"{name}/{mistake}").submission, engines).message
    assert [word for word in words if word not in message] == [], message


def test_messages_in_the_picture_say_what_they_hold(engines: Engines) -> None:
    submission = wrong.find("ring_all_reduce/gather_adds").submission
    drawn = grade(only(find("ring_all_reduce"), "sum"), submission, engines, verdicts.SEED).check("sum").diagram or ""
    assert "holds chunk 0 of rank 0;" in drawn
    assert "holds chunk 0 of ranks 0 and 1;" in drawn


def test_points_and_kind_do_not_rest_on_the_explanation(engines: Engines, monkeypatch: pytest.MonkeyPatch) -> None:
    submission = wrong.find("ring_all_reduce/gather_adds").submission
    found = told("ring_all_reduce", "sum", submission, engines)
    monkeypatch.setattr(RankBench, "again", lambda *_: ())
    bare = told("ring_all_reduce", "sum", submission, engines)
    assert (bare.kind, bare.rank, bare.expected, bare.got) == (found.kind, found.rank, found.expected, found.got)
    assert "element 0 counts rank 0 twice." in bare.message
