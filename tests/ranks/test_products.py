"""Matrix products of simulated ranks take the virtual time that their FLOPs take on a named machine."""

from __future__ import annotations

from dataclasses import replace

import pytest
from test_equality import PATIENT

from grader.ranks import machine
from grader.ranks.engines import Engines
from grader.ranks.network import PRESETS, Network, parse
from grader.ranks.program import Call, Function, Program

RATE = 1e9  # FLOP/s: one FLOP takes a nanosecond
FREE = Network(alpha=0.0, beta=0.0)
HEAD = "import torch, torch.nn.functional as F, torch.distributed as dist\nT = torch.ones\n"
# a body, and its FLOPs on each of 2 ranks
PRODUCTS = {
    "mm": ("T(2, 3) @ T(3, 5)", 60),
    "batched": ("torch.bmm(T(7, 2, 3), T(7, 3, 5))", 420),
    "with_bias": ("torch.addmm(T(5), T(2, 3), T(3, 5))", 60),
    "in_bf16": ("T(2, 3, dtype=torch.bfloat16) @ T(3, 5, dtype=torch.bfloat16)", 60),
    "backward": ("w = T(3, 5).requires_grad_(); x = T(2, 3).requires_grad_(); (x @ w).sum().backward()", 180),
    "one_gradient": ("w = T(3, 5).requires_grad_(); (T(2, 3) @ w).sum().backward()", 120),
    "checkpointed": (
        "from torch.utils.checkpoint import checkpoint\nw = T(3, 5).requires_grad_()\n"
        "checkpoint(lambda x: (x @ w).tanh(), T(2, 3), use_reentrant=False).sum().backward()", 180),
    "attention": (
        "q = T(1, 2, 4, 8).requires_grad_(); F.scaled_dot_product_attention(q, q, q).sum().backward()", 7 * 512),
    "no_memory": ("T(2**10, 2**10, device='meta') @ T(2**10, 2**10, device='meta')", 2**31),
    "elementwise": ("(T(64, 64) * T(64, 64)).sum()", 0),
    "column_parallel": (
        "from torch.distributed.device_mesh import init_device_mesh\n"
        "from torch.distributed.tensor import Replicate, Shard, distribute_tensor\n"
        "mesh = init_device_mesh('cpu', (2,))\n"
        "x, w = distribute_tensor(T(2, 3), mesh, [Replicate()]), distribute_tensor(T(3, 8), mesh, [Shard(1)])\n"
        "x @ w", 48),
}  # fmt: skip


def program(flops: float) -> Program:
    bodies = {name: body.replace("\n", "\n    ") for name, (body, _) in PRODUCTS.items()}
    text = HEAD + "".join(f"def {name}():\n    {body}\n" for name, body in bodies.items())
    return Program(text, "learner.py", tuple(map(Function, PRODUCTS)), watched=True, flops=flops)


@pytest.mark.heavy
@pytest.mark.parametrize("flops", [RATE, 0.0])
def test_a_product_takes_its_flops(engines: Engines, flops: float) -> None:
    calls = [Call(((), ()), name) for name in PRODUCTS]
    run = engines.run("sim", program(flops), 2, calls, 1, PATIENT, FREE)
    assert run.finished, (run.diagnoses, run.stderr)
    took = {name: list(call.finish) for name, call in zip(PRODUCTS, run.calls, strict=True)}
    assert took == {name: pytest.approx([count / RATE if flops else 0] * 2) for name, (_, count) in PRODUCTS.items()}


def test_products_hide_behind_messages_and_buffers_are_still_watched(engines: Engines) -> None:
    text = HEAD + (
        "def f():\n    x, r = T(250), dist.get_rank()\n    q = dist.isend(x, 1) if r == 0 else dist.irecv(x, 0)\n"
        "    T(5, 10) @ T(10, 5)\n    x.add_(1)\n    q.wait()\n"
    )
    told = replace(Program.of(text, "learner.py", "f"), watched=True, flops=RATE)
    run = engines.run("sim", told, 2, [Call(((), ()))], 1, PATIENT, Network(alpha=0.0, beta=1e-9))
    assert [call.finish for call in run.calls] == [pytest.approx((1e-6, 1e-6))], "500 ns of work behind 1,000 bytes"
    assert [found.line for found in run.calls[0].diagnoses] == [7, 7], "a product is no reason to lose sight of x"


@pytest.mark.parametrize("name", machine.MACHINES)
def test_a_machine_has_the_network_of_its_name(name: str) -> None:
    assert name in PRESETS
    assert machine.parse(name).network == parse(name)
    assert machine.parse(name).sustained == pytest.approx(0.6 * machine.parse(name).peak, rel=0.02)
