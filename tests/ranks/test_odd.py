"""When one rank has left and others wait: whose call is the odd one out, and where the waiting began."""

from __future__ import annotations

import textwrap

import pytest

from grader.ranks.engines import Engines
from grader.ranks.program import Function, Limits, Program, same_for_all

HEAD = (
    "import torch, torch.distributed as dist\ndef f():\n"
    "    r, n, x, y = dist.get_rank(), dist.get_world_size(), torch.ones(4), torch.zeros(4)\n"
)
# ranks, body, the rank and line that are named, words of the sentence
ODD = {
    "the group is forgotten": (
        4, "g = dist.new_group([0, 1])\nif r < 2: dist.all_reduce(x)", 0, 5,
        "Exactly ranks 0 and 1 made this call, and they are a group of their own "
        "(line 4: `g = dist.new_group([0, 1])`), but the call is one of all 4 ranks.",
    ),
    "a rank of the group for one of the world": (
        4, "g = dist.new_group([2, 3])\nif r == 2: dist.send(x, 1)\nif r == 3: dist.recv(y, 0)", 2, 5,
        "Within the group of ranks 2 and 3, rank 3 has the number 1, but dst is a rank of the whole world.",
    ),
    "one step more": (
        3, "for _ in range(4 if r == 2 else 3):\n    dist.all_reduce(x)", 2, 5,
        "Rank 2 made this call 4 times, and every other rank 3 times.",
    ),
    "one step less": (
        3, "for _ in range(2 if r == 1 else 3):\n    dist.all_reduce(x)", 1, 5,
        "Rank 1 made this call twice, and every other rank 3 times.",
    ),
    "one step more of a ring": (
        4, "for _ in range(3 + (r == 1)):\n    q = dist.isend(x, (r + 1) % n)\n"
        "    dist.recv(y, (r - 1) % n)\n    q.wait()", 1, 6, "Rank 1 made this call 4 times",
    ),
    "a collective on one path": (
        3, "if r == 0: dist.barrier()", 0, 4, "Rank 0 made this call once, and every other rank never."
    ),
    "more batches": (
        2, "for _ in range(5 - r):\n    dist.all_reduce(x)", 1, 5,
        "Rank 0 made this call 5 times, and rank 1 4 times.",
    ),
    "another tag": (
        2, "if r == 0: dist.isend(x, 1, tag=3)\nelse: dist.recv(y, 0, tag=4)", 0, 4,
        "with tag 3, but rank 1 waits with tag 4.",
    ),
    "to another rank": (
        3, "if r == 0: dist.isend(x, 1)\nif r == 2: dist.recv(y, 0)", 0, 4, "and rank 1 never received it.",
    ),
    "where it began": (
        2, "if r == 0:\n    q = dist.isend(x, 1)\n    q.wait()", 1, 6,
        "for what it began earlier (line 5: `q = dist.isend(x, 1)`)",
    ),
}  # fmt: skip


@pytest.mark.parametrize("engine", ["sim", "gloo"])
@pytest.mark.parametrize("name", ODD)
def test_the_odd_call_is_named(engines: Engines, engine: str, name: str) -> None:
    ranks, body, rank, line, words = ODD[name]
    program = Program(HEAD + textwrap.indent(body, "    "), "learner.py", (Function("f"),), watched=True)
    done = engines.run(engine, program, ranks, [same_for_all(ranks)], 1, Limits(), strictly=True)
    found = done.diagnoses[0]
    assert done.ending == "left_early", found.message
    assert (found.rank, found.line) == (rank, line), found.message
    assert words in found.message
