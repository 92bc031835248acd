"""The simulator against real gloo processes: the same programs must leave the same results, endings and counts."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from often import often

from grader.ranks.engines import Engines
from grader.ranks.program import Call, Function, Limits, Program, Run, Strided

PATIENT = Limits(cpu_seconds=60, idle_seconds=60, silent_seconds=60)
SIZES = range(1, 9)
DTYPES = ("float32", "float64", "int64", "int32", "uint8", "float16")

# Each is the body of a function of (r, n, dt): rank, world size, dtype. `x(*shape)` gives values that differ by rank.
COLLECTIVES = {
    "all_reduce": "t = x(5); dist.all_reduce(t); return t",
    "all_reduce_max": "t = x(2, 3); dist.all_reduce(t, op=dist.ReduceOp.MAX); return t",
    "all_reduce_min": "t = x(4); dist.all_reduce(t, op=dist.ReduceOp.MIN); return t",
    "all_reduce_average": "t = x(3).float(); dist.all_reduce(t, op=dist.ReduceOp.AVG); return t",
    "all_reduce_product": "t = x(3) % 2 + 1; dist.all_reduce(t, op=dist.ReduceOp.PRODUCT); return t",
    "all_reduce_async": "t = x(5); w = dist.all_reduce(t, async_op=True); w.wait(); return t",
    "all_reduce_empty": "t = x(0); dist.all_reduce(t); return t",
    "broadcast": "t = x(4); dist.broadcast(t, src=n - 1); return t",
    "broadcast_scalar": "t = x(1)[0].clone(); dist.broadcast(t, src=0); return t",
    "reduce": "t = x(4); dist.reduce(t, dst=n // 2); return t if r == n // 2 else None",
    "all_gather": "t = x(3); o = [torch.zeros_like(t) for _ in range(n)]; dist.all_gather(o, t); return o",
    "all_gather_into_tensor":
        "t = x(3); o = torch.zeros(3 * n, dtype=dt); dist.all_gather_into_tensor(o, t); return o",
    "all_gather_into_stacked":
        "t = x(2, 2); o = torch.zeros(2 * n, 2, dtype=dt); dist.all_gather_into_tensor(o, t); return o",
    "gather":
        "t = x(3); o = [torch.zeros_like(t) for _ in range(n)] if r == n - 1 else None\n"
        "dist.gather(t, o, dst=n - 1); return o",
    "scatter":
        "t = torch.zeros(3, dtype=dt); i = [x(3) + k for k in range(n)] if r == 0 else None\n"
        "dist.scatter(t, i, src=0); return t",
    "reduce_scatter":
        "t = torch.zeros(3, dtype=dt); dist.reduce_scatter(t, [x(3) + k for k in range(n)]); return t",
    "reduce_scatter_tensor":
        "t = torch.zeros(3, dtype=dt); dist.reduce_scatter_tensor(t, x(3 * n)); return t",
    "reduce_scatter_rows":
        "t = torch.zeros(2, 3, dtype=dt); dist.reduce_scatter_tensor(t, x(2 * n, 3)); return t",
    "reduce_scatter_refuses_stacked":
        "try: dist.reduce_scatter_tensor(torch.zeros(3, dtype=dt), x(n, 3))\n"
        "except RuntimeError: return 'refused'",
    "all_to_all_single": "o = torch.zeros(2 * n, dtype=dt); dist.all_to_all_single(o, x(2 * n)); return o",
    "all_to_all_single_uneven":
        "take = [1 + (r + k) % 2 for k in range(n)]; give = [1 + (k + r) % 2 for k in range(n)]\n"
        "o = torch.zeros(sum(take), dtype=dt); dist.all_to_all_single(o, x(sum(give)), take, give); return o",
    "all_to_all_single_of_rows":
        "give = [0] * n if r == 0 else [k % 3 for k in range(n)]; take = [0] + [r % 3] * (n - 1)\n"
        "o = torch.zeros(sum(take), 3, dtype=dt)\n"
        "w = dist.all_to_all_single(o, x(sum(give), 3), take, give, async_op=True); w.wait(); return o",
    "all_to_all_single_in_a_group":
        "g = dist.new_group(list(range(n - 1, -1, -1))); give = [(k + r) % 3 for k in range(n)]\n"
        "o = torch.zeros(sum(give), dtype=dt); dist.all_to_all_single(o, x(sum(give)), give, give, group=g); return o",
    "all_to_all": "o = [torch.zeros(2, dtype=dt) for _ in range(n)]\n"
        "dist.all_to_all(o, [x(2) + k for k in range(n)]); return o",
    "barrier": "dist.barrier(); return r",
    "several_at_once":
        "a, b = x(3), x(4); p = dist.all_reduce(a, async_op=True); q = dist.broadcast(b, 0, async_op=True)\n"
        "q.wait(); p.wait(); return a, b",
    "sub_groups":
        "g = [dist.new_group(list(range(k, n, 2))) for k in range(min(2, n))][r % 2]\n"
        "t = x(4); dist.all_reduce(t, group=g); o = [torch.zeros_like(t) for _ in range(g.size())]\n"
        "dist.all_gather(o, x(4), group=g); return t, o, dist.get_rank(g), dist.get_world_size(g)",
    "group_of_some":
        "g = dist.new_group([n - 1, 0] if n > 1 else [0]); t = x(4)\n"
        "if r in (0, n - 1): dist.broadcast(t, src=n - 1, group=g)\nreturn t",
    "send_in_a_group":
        "g = dist.new_group(list(range(n - 1, -1, -1))); t = x(2)\n"
        "if n > 1 and r == n - 1: dist.send(t, 0, group=g)\n"
        "if n > 1 and r == 0: dist.recv(t, n - 1, group=g)\nreturn t",
    "ring": "o = torch.zeros(4, dtype=dt)\nif n == 1: return o\n"
        "q = dist.isend(x(4), (r + 1) % n); dist.recv(o, (r - 1) % n); q.wait(); return o",
    "batch":
        "o = torch.zeros(4, dtype=dt)\nif n == 1: return o\n"
        "for w in dist.batch_isend_irecv([dist.P2POp(dist.isend, x(4), (r + 1) % n),\n"
        "                                 dist.P2POp(dist.irecv, o, (r - 1) % n)]): w.wait()\nreturn o",
    "tags":
        "a, b = torch.zeros(2, dtype=dt), torch.zeros(2, dtype=dt)\nif n == 1: return a, b\n"
        "q = [dist.isend(x(2), (r + 1) % n, tag=7), dist.isend(x(2) + 1, (r + 1) % n, tag=3)]\n"
        "dist.recv(b, (r - 1) % n, tag=3); dist.recv(a, (r - 1) % n, tag=7); [w.wait() for w in q]; return a, b",
    "any_source":
        "if r: dist.send(x(2), 0); return None\n"
        "got = []\nfor _ in range(n - 1):\n    t = torch.zeros(2, dtype=dt); s = dist.recv(t); got.append((s, t))\n"
        "return sorted(got, key=lambda pair: pair[0])",
}  # fmt: skip
OBJECTS = {
    "all_gather_object": "o = [None] * n; dist.all_gather_object(o, {'rank': r, 'list': list(range(r))}); return o",
    "broadcast_object_list": "o = [r, 'a' * r]; dist.broadcast_object_list(o, src=n - 1); return o",
    "gather_object": "o = [None] * n if r == 0 else None; dist.gather_object(('x', r), o, dst=0); return o",
    "scatter_object_list":
        "o = [None]; dist.scatter_object_list(o, [{'k': k} for k in range(n)] if r == 0 else None, src=0); return o",
    "send_object_list":
        "o = [None]\nif n == 1: return o\n"
        "if r == 0: dist.send_object_list([{'a': 1}], dst=1)\nif r == 1: dist.recv_object_list(o, src=0)\nreturn o",
    "monitored_barrier": "dist.monitored_barrier(); return 1",
    "coalesced":
        "a, b = torch.ones(3) * r, torch.ones(2) * r\n"
        "with dist._coalescing_manager():\n    dist.all_reduce(a); dist.all_reduce(b)\nreturn a, b",
    "functional":
        "import torch.distributed._functional_collectives as F\n"
        "t = torch.arange(4.0) + r; g = dist.group.WORLD\n"
        "return [F.all_reduce(t, 'sum', g) + 0, F.all_gather_tensor(t, 0, g) + 0,\n"
        "        F.reduce_scatter_tensor(torch.arange(2.0 * n) + r, 'sum', 0, g) + 0, F.broadcast(t, 0, g) + 0]",
    "functional_all_to_all":
        "import torch.distributed._functional_collectives as F\n"
        "give = [(k + r) % 3 for k in range(n)]; t = x(sum(give), 3).requires_grad_()\n"
        "y = F.all_to_all_single(t, give, give, dist.group.WORLD); (y * x(sum(give), 3)).sum().backward()\n"
        "return y + 0, t.grad",
    "differentiable":
        "import torch.distributed.nn.functional as F\n"
        "give = [(k + r) % 3 for k in range(n)]; t = x(sum(give), 3).requires_grad_()\n"
        "y = F.all_to_all_single(torch.empty(sum(give), 3), t, give, give)\n"
        "(y * x(sum(give), 3)).sum().backward(); return y, t.grad",
    "differentiable_lists":
        "import torch.distributed.nn.functional as F\n"
        "t = [(x(2) + k).requires_grad_() for k in range(n)]; y = F.all_to_all([torch.empty(2) for _ in t], t)\n"
        "z = F.all_gather(y[0]); sum((v * (r + k)).sum() for k, v in enumerate([*y, *z])).backward()\n"
        "return list(y), list(z), [v.grad for v in t]",
    "own_group":
        "dist.destroy_process_group(); dist.init_process_group('gloo')\n"
        "t = torch.ones(2) * r; dist.all_reduce(t); return t, dist.get_backend(), dist.get_rank()",
    "group_described": "return dist.new_group(group_desc='mine').group_desc, dist.group.WORLD.group_desc",
    "environment": "import os; return [os.environ['RANK'], os.environ['WORLD_SIZE'], os.environ['LOCAL_RANK']]",
}  # fmt: skip

# Of types that gloo's collectives refuse: what they say, which collective after them still works, and that messages
# take every type. `said(call)` gives the words of what a call raises.
UNKNOWN = {
    **{
        name: f"return said(lambda: {call}), again()"
        for name, call in {
            "all_reduce": "dist.all_reduce(t)",
            "all_reduce_max": "dist.all_reduce(t, op=dist.ReduceOp.MAX)",
            "all_reduce_empty": "dist.all_reduce(t[:0].clone())",
            "all_reduce_async": "dist.all_reduce(t, async_op=True).wait()",
            "broadcast": "dist.broadcast(t, 0)",
            "reduce": "dist.reduce(t, n - 1)",
            "all_gather": "dist.all_gather(each(), t)",
            "all_gather_into_tensor": "dist.all_gather_into_tensor(t.repeat(n), t[:4])",
            "gather": "dist.gather(t, each() if r == 0 else None, 0)",
            "scatter": "dist.scatter(t, each() if r == 0 else None, 0)",
            "reduce_scatter": "dist.reduce_scatter(t, each())",
            "reduce_scatter_tensor": "dist.reduce_scatter_tensor(t.clone(), t.repeat(n))",
            "all_to_all": "dist.all_to_all(each(), each())",
            "all_to_all_single": "dist.all_to_all_single(t.repeat(n), t.repeat(n))",
        }.items()
    },
    "call_and_wait":
        "w = dist.broadcast(t, 0, async_op=True); return said(w.wait)",
    "as_bytes": "b = t.view(torch.uint8); o = [torch.empty_like(b) for _ in range(n)]\n"
        "dist.all_gather(o, b); return [each.view(dt).float() for each in o]",
    "ring": "o = torch.zeros(4).to(dt)\nif n == 1: return o.float()\n"
        "q = dist.isend(t, (r + 1) % n); dist.recv(o, (r - 1) % n); q.wait(); return o.float()",
    "batch":
        "o = torch.zeros(4).to(dt)\nif n == 1: return o.float()\n"
        "for w in dist.batch_isend_irecv([dist.P2POp(dist.isend, t, (r + 1) % n),\n"
        "                                 dist.P2POp(dist.irecv, o, (r - 1) % n)]): w.wait()\nreturn o.float()",
    "sent_and_read_as_bytes":
        "o = torch.zeros(t.nbytes, dtype=torch.uint8)\nif r == 0 and n > 1: dist.send(t, 1)\n"
        "if r == 1: dist.recv(o)\nreturn o",
}  # fmt: skip
UNKNOWN_HEAD = (
    "t = (torch.arange(4) + 3 * r + 1).to(dt); each = lambda: [t.clone() for _ in range(n)]\n"
    "def said(call):\n    try: call()\n    except RuntimeError as error: return str(error).splitlines()[0]\n"
    "def again(): o = torch.ones(2); dist.all_reduce(o); return o\n"
)

# ReduceOp.AVG: gloo sums and then divides in place, which a tensor of integers refuses. What it says, what it has left
# of the sum, and whether the next collective works.
AVERAGES = {
    "all_reduce": "return said(lambda: dist.all_reduce(t, op=AVG)), t.float(), again()",
    "all_reduce_async": "w = dist.all_reduce(t, op=AVG, async_op=True); return said(w.wait), t.float(), again()",
    "all_reduce_empty": "e = t[:0].clone(); return said(lambda: dist.all_reduce(e, op=AVG)), e.float(), again()",
    "reduce": "s = said(lambda: dist.reduce(t, n - 1, op=AVG)); return s, t.float() if r == n - 1 else None, again()",
    "reduce_scatter":
        "o = t.clone(); s = said(lambda: dist.reduce_scatter(o, each(), op=AVG))\n"
        "return s, o.float() if dt.is_floating_point else None, again()",
    "reduce_scatter_tensor":
        "o = t.clone(); s = said(lambda: dist.reduce_scatter_tensor(o, t.repeat(n), op=AVG))\n"
        "return s, o.float() if dt.is_floating_point else None, again()",
}  # fmt: skip


FROM_CPP = (
    "functional",
    "functional_all_to_all",
)  # collectives that torch's C++ calls: on real processes nobody sees them


def program(bodies: dict[str, str]) -> Program:
    head = (
        "import torch, torch.distributed as dist\n"
        "def call(body, dtype):\n"
        "    r, n, dt = dist.get_rank(), dist.get_world_size(), getattr(torch, dtype)\n"
        "    x = lambda *shape: (torch.arange(max(1, torch.Size(shape).numel())) + 3 * r + 1)"
        "[:torch.Size(shape).numel()].to(dt).reshape(shape)\n"
        "    return body(r, n, dt, x)\n"
    )
    parts = []
    for name, body in bodies.items():
        lines = "\n    ".join(body.split("\n"))
        parts.append(f"def _{name}(r, n, dt, x):\n    {lines}\ndef {name}(dtype): return call(_{name}, dtype)\n")
    return Program(head + "".join(parts), "learner.py", tuple(Function(name) for name in bodies))


def both(engines: Engines, bodies: dict[str, str], ranks: int, dtypes: tuple[str, ...]) -> tuple[Run, Run]:
    calls = [Call(tuple((dtype,) for _ in range(ranks)), name) for name in bodies for dtype in dtypes]
    code = program(bodies)
    return engines.run("sim", code, ranks, calls, 1, PATIENT), engines.run("gloo", code, ranks, calls, 1, PATIENT)


def close(a: Any, b: Any) -> bool:
    """Equal, and sums within rounding."""
    if isinstance(a, Strided) and isinstance(b, Strided):
        return a.shape == b.shape and a.storage.dtype == b.storage.dtype and np.allclose(a.view(), b.view(), 1e-3, 2e-5)
    if isinstance(a, list) and isinstance(b, list):
        return len(a) == len(b) and all(close(x, y) for x, y in zip(a, b, strict=True))
    if isinstance(a, float) and isinstance(b, float):
        return bool(np.isclose(a, b, 1e-3))
    return bool(a == b)


def same(simulated: Run, real: Run, names: list[str]) -> None:
    for run in (simulated, real):
        done = len(run.calls)
        where = names[done] if done < len(names) else "the end"
        assert run.ending == "finished", f"{where}: {run.diagnoses[0].message}\n{''.join(run.stderr)[-2000:]}"
    for name, a, b in zip(names, simulated.calls, real.calls, strict=True):
        for rank in range(simulated.ranks):
            assert close(a.returned[rank], b.returned[rank]), f"{name}, rank {rank}: {a.returned} != {b.returned}"
            if name.split()[0] in FROM_CPP:
                continue
            assert a.trace.bytes_sent(rank) == b.trace.bytes_sent(rank), name
            assert [o.name for o in a.trace.operations(rank)] == [o.name for o in b.trace.operations(rank)], name
            assert [o.size for o in a.trace.operations(rank)] == [o.size for o in b.trace.operations(rank)], name
        assert [d.message for d in a.diagnoses] == [d.message for d in b.diagnoses], name


@pytest.mark.parametrize("ranks", often({str(n): n for n in SIZES}, "1", "3"))
def test_every_collective_and_pattern(engines: Engines, ranks: int) -> None:
    dtypes = DTYPES if ranks in (2, 3) else ("float32", "int64")
    simulated, real = both(engines, COLLECTIVES, ranks, dtypes)
    same(simulated, real, [f"{name} {dtype}" for name in COLLECTIVES for dtype in dtypes])


@pytest.mark.parametrize("ranks", often({"1": 1, "2": 2, "4": 4}, "2"))
def test_types_that_collectives_refuse_and_messages_take(engines: Engines, ranks: int) -> None:
    dtypes = ("float8_e4m3fn", "float8_e5m2", "float8_e4m3fnuz", "float8_e8m0fnu", "int16", "uint16")
    bodies = {name: UNKNOWN_HEAD + body for name, body in UNKNOWN.items()}
    dtypes = dtypes if ranks == 2 else dtypes[:1]
    simulated, real = both(engines, bodies, ranks, dtypes)
    names = [f"{name} {dtype}" for name in UNKNOWN for dtype in dtypes]
    same(simulated, real, names)
    for name, call in zip(names, simulated.calls, strict=True):
        if "again()" in UNKNOWN[name.split()[0]]:
            assert call.returned[0][0] == "Invalid scalar type", name


@pytest.mark.parametrize("ranks", often({"1": 1, "2": 2, "3": 3}, "2"))
def test_averages_of_floats_and_of_integers(engines: Engines, ranks: int) -> None:
    dtypes = ("float32", "float16", "bfloat16", "int32", "int64", "uint8", "bool")
    bodies = {name: UNKNOWN_HEAD + "AVG = dist.ReduceOp.AVG\n" + body for name, body in AVERAGES.items()}
    simulated, real = both(engines, bodies, ranks, dtypes)
    names = [f"{name} {dtype}" for name in AVERAGES for dtype in dtypes]
    same(simulated, real, names)


@pytest.mark.heavy
@pytest.mark.parametrize("ranks", [1, 2, 5])
def test_objects_and_what_else_there_is(engines: Engines, ranks: int) -> None:
    simulated, real = both(engines, OBJECTS, ranks, ("float32",))
    same(simulated, real, list(OBJECTS))
