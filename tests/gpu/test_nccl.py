"""The nccl engine: one process a GPU, the same interface. Run with `make test-gpu`."""

from __future__ import annotations

import pytest

from grader.ranks.engines import Engines, Unsupported, gpus
from grader.ranks.program import Limits, Program, same_for_all

PATIENT = Limits(cpu_seconds=60, idle_seconds=60, silent_seconds=120)
SUM = (
    "import torch, torch.distributed as dist\ndef f():\n"
    "    x = torch.full((4,), float(dist.get_rank() + 1), device='cuda')\n"
    "    dist.all_reduce(x)\n    return x, dist.get_backend()\n"
)
RING = (
    "import torch, torch.distributed as dist\ndef f():\n"
    "    r, n = dist.get_rank(), dist.get_world_size()\n"
    "    x, y = torch.full((4,), float(r), device='cuda'), torch.zeros(4, device='cuda')\n"
    "    ops = [dist.P2POp(dist.isend, x, (r + 1) % n), dist.P2POp(dist.irecv, y, (r - 1) % n)]\n"
    "    for work in dist.batch_isend_irecv(ops): work.wait()\n"
    "    return y\n"
)


def worlds() -> list[int]:
    return [n for n in (1, 2, 4, 8) if n <= gpus()] or [1]


def test_more_ranks_than_gpus_is_one_sentence(engines: Engines) -> None:
    n = gpus() + 1
    with pytest.raises(Unsupported, match=f"nccl needs a GPU for each of the {n} ranks"):
        engines.run("nccl", Program.of(SUM, "a.py", "f"), n, [same_for_all(n)], 1, PATIENT)


@pytest.mark.gpu
@pytest.mark.parametrize("ranks", worlds())
def test_a_collective(engines: Engines, ranks: int) -> None:
    run = engines.run("nccl", Program.of(SUM, "a.py", "f"), ranks, [same_for_all(ranks)], 1, PATIENT)
    assert run.finished, (run.diagnoses, run.stderr)
    for tensor, backend in run.calls[0].returned:
        assert tensor.view().tolist() == [ranks * (ranks + 1) / 2] * 4
        assert backend == "nccl"


@pytest.mark.gpu
@pytest.mark.skipif(gpus() < 2, reason="needs two GPUs")
def test_point_to_point(engines: Engines) -> None:
    run = engines.run("nccl", Program.of(RING, "a.py", "f"), 2, [same_for_all(2)], 1, PATIENT)
    assert run.finished, (run.diagnoses, run.stderr)
    assert [tensor.view().tolist() for tensor in run.calls[0].returned] == [[1.0] * 4, [0.0] * 4]
