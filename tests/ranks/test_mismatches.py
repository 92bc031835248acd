"""Collectives that do not fit together: one sentence, the same from simulated ranks and from real processes."""

from __future__ import annotations

import textwrap

import pytest

from grader.ranks.engines import Engines
from grader.ranks.program import Function, Limits, Program, Run, same_for_all

QUICK = Limits(cpu_seconds=0.6, idle_seconds=1.0)
HEAD = (
    "import torch, torch.distributed as dist\ndef f():\n"
    "    r, n = dist.get_rank(), dist.get_world_size()\n    x = torch.ones(4) * r\n"
)
# body -> ending, line of the sentence, and words of it
CASES = {
    "another call": (
        "dist.all_reduce(x) if r else dist.broadcast(x, 0)", "mismatched", 5,
        "rank 0 called broadcast (line 5: `dist.all_reduce(x) if r else dist.broadcast(x, 0)`), "
        "but rank 1 called all_reduce",
    ),
    "one is skipped": (
        "if r != 1: dist.all_reduce(x)\ndist.barrier()", "mismatched", 5,
        "Collective number 1 is not the same on all ranks: rank 0 called all_reduce (line 5: `if r != 1: "
        "dist.all_reduce(x)`), but rank 1 called barrier (line 6: `dist.barrier()`)",
    ),
    "another root": ("dist.broadcast(x, src=r)", "mismatched", 5, "with rank 0 as the root"),
    "another type": ("dist.all_reduce(x.double() if r else x)", "mismatched", 5, "with a tensor of float32"),
    "same-size types": ("dist.all_reduce(x.int() if r else x)", "mismatched", 5, "with a tensor of int32"),
    "another reduction": (
        "dist.all_reduce(x, op=dist.ReduceOp.MAX if r else dist.ReduceOp.SUM)", "mismatched", 5,
        "rank 0 called all_reduce with SUM",
    ),
    "another size": ("dist.all_reduce(x[: 4 - r].clone())", "mismatched", 5, "with 16 bytes"),
    "one left early": (
        "if r == 2: return\ndist.all_reduce(x)", "left_early", 6,
        "Rank 2 returned, but rank 0 waits in all_reduce (line 6: `dist.all_reduce(x)`)",
    ),
    "other orders in two groups": (
        "a, b = dist.new_group([0, 1, 2]), dist.new_group([0, 1, 2])\n"
        "for g in ((a, b) if r else (b, a)): dist.all_reduce(x, group=g)",
        "deadlocked", 6, "Deadlock, a cycle of 2 ranks: rank 0 waits in all_reduce",
    ),
    "a group that one does not make": (
        "if r < 2: g = dist.new_group([0, 1]) if r else None\ndist.barrier()", "deadlocked", 6,
        "rank 1 waits in new_group",
    ),
    "a send where the others are in a collective": (
        "if r == 0: dist.send(x, 1)\ndist.barrier()", "deadlocked", 5, "rank 0 waits to send 16 bytes to rank 1",
    ),
}  # fmt: skip


def run(engines: Engines, engine: str, body: str) -> Run:
    source = HEAD + textwrap.indent(body, "    ")
    return engines.run(engine, Program.of(source, "learner.py", "f"), 3, [same_for_all(3)], 1, QUICK)


@pytest.mark.parametrize("engine", ["sim", "gloo"])
@pytest.mark.parametrize(("body", "ending", "line", "words"), CASES.values(), ids=CASES.keys())
def test_the_sentence(engines: Engines, engine: str, body: str, ending: str, line: int, words: str) -> None:
    found = run(engines, engine, body)
    assert found.ending == ending, found.diagnoses
    assert words in found.diagnoses[0].message, found.diagnoses[0].message
    assert found.diagnoses[0].line == line, found.diagnoses[0].message


@pytest.mark.parametrize("engine", ["sim", "gloo"])
def test_a_message_read_as_another_type(engines: Engines, engine: str) -> None:
    body = "if r == 0: dist.send(x, 1)\nif r == 1: dist.recv(torch.zeros(4, dtype=torch.int32), 0)"
    found = run(engines, engine, body).calls[0].diagnoses
    assert [d.kind for d in found] == ["wrong_result"]
    assert "Rank 1 receives int32 (line 6" in found[0].message
    assert "rank 0 sends float32 (line 5" in found[0].message


@pytest.mark.parametrize(
    ("body", "words"),
    {
        "uneven splits": (
            "dist.all_to_all_single(x.new_zeros(5 + r), x.new_ones(6), [2, 2, 1 + r], [2, 2, 2])",
            "the number of elements that rank 2 sends to rank 0 is 2, but rank 0 expects 1.",
        ),
        "a list of other sizes": (
            "dist.all_to_all([x[:2], x[:2], x[:2]], [x[:2], x[:3], x[:2]])", "all_to_all takes tensors of one size",
        ),
        "a part of each row": (
            "dist.all_to_all_single(x.new_zeros(3, 4)[:, ::2], x.new_zeros(3, 2))", "is not contiguous",
        ),
    }.values(),
)  # fmt: skip
def test_parts_that_gloo_would_spoil_or_abort_at(engines: Engines, body: str, words: str) -> None:
    found = run(engines, "sim", body)
    assert found.ending == "crashed"
    assert words in found.diagnoses[0].message


# body -> words of the sentence; torch itself goes on
GROUPS = {
    "only their members make them": (
        "if r < 2: dist.new_group([0, 1])", "Rank 0 called new_group with ranks 0, 1 (line 5: `", "but rank 2 did not",
    ),
    "in another order": (
        "for each in ([0, 1], [2]) if r < 2 else ([2], [0, 1]): dist.new_group(each)",
        "Call number 1 of new_group is not the same on all ranks: rank 0 called it with ranks 0, 1 (line 5: `",
        "but rank 2 with ranks 2",
    ),
}  # fmt: skip


@pytest.mark.parametrize("engine", ["sim", "gloo"])
@pytest.mark.parametrize("name", GROUPS)
def test_groups_are_made_by_all_in_one_order(engines: Engines, engine: str, name: str) -> None:
    body, *words = GROUPS[name]
    program = Program(HEAD + textwrap.indent(body, "    "), "learner.py", (Function("f"),), watched=True)
    done = engines.run(engine, program, 3, [same_for_all(3)], 1, QUICK)
    assert done.finished, done.diagnoses
    [found] = done.calls[0].diagnoses
    assert (found.kind, found.line) == ("mismatched_collective", 5)
    assert [each for each in words if each not in found.message] == []
