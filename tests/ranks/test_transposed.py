"""Tensors whose elements lie in memory without gaps, but not in the usual order: what gloo does with them."""

from __future__ import annotations

import textwrap

import pytest

from grader.ranks.engines import Engines
from grader.ranks.program import Program, Run, same_for_all

HEAD = "import torch, torch.distributed as dist\ndef f():\n    r = dist.get_rank()\n"
TRANSPOSED = """
m = torch.arange(6.).view(2, 3).t() + r
dist.{}
return m.reshape(-1).tolist()
"""


def run(engines: Engines, engine: str, body: str) -> Run:
    program = Program.of(HEAD + textwrap.indent(body, "    "), "learner.py", "f")
    return engines.run(engine, program, 2, [same_for_all(2)], strictly=True)


@pytest.mark.parametrize(
    "call", ["all_reduce(m)", "broadcast(m, 1)", "reduce(m, 0)", "all_reduce(m, op=dist.ReduceOp.MAX)"]
)
def test_a_transposed_tensor_is_reduced_as_gloo_does(engines: Engines, call: str) -> None:
    done = [run(engines, engine, TRANSPOSED.format(call)) for engine in ("sim", "gloo")]
    assert [each.ending for each in done] == ["finished", "finished"], done[0].diagnoses
    assert done[0].calls[0].returned[0] == done[1].calls[0].returned[0]


@pytest.mark.parametrize(
    "body",
    ["m = torch.zeros(3, 3)[:, 0]", "m = torch.zeros(2, 3)\nif r: m = torch.zeros(3, 2).t()"],
    ids=["with gaps", "in another order on one rank"],
)
def test_what_gloo_reduces_wrongly_is_refused(engines: Engines, body: str) -> None:
    done = run(engines, "sim", f"{body}\ndist.all_reduce(m)")
    assert done.ending == "crashed"
    assert "Call .contiguous() first" in done.diagnoses[0].message
