"""Memory that a request still uses: each read and write before wait() is named with both lines, on both engines."""

from __future__ import annotations

import textwrap

import pytest

from grader.ranks.engines import Engines
from grader.ranks.program import Function, Limits, Program, Run, same_for_all

QUICK = Limits(cpu_seconds=5, idle_seconds=5)
HEAD = (
    "import torch, torch.distributed as dist\ndef f():\n"
    "    r, n, x, y = dist.get_rank(), dist.get_world_size(), torch.ones(4), torch.zeros(4)\n"
)
RECEIVES = "if r == 0: dist.send(x, 1)\nelse:\n    q = dist.irecv(y, 0)\n    {}\n    q.wait()"  # lines 6, 7, 8
SENDS = "if r == 1: dist.recv(y, 0)\nelse:\n    q = dist.isend(x, 1)\n    {}\n    q.wait()"
REDUCES = "w = dist.all_reduce(x, async_op=True)\n{}\nw.wait()"  # lines 4, 5, 6
# body, line of the operation, line of the read or write, words of the sentence
SOON = {
    "read by arithmetic": (RECEIVES.format("z = y + 1"), 6, 7, "Rank 1 read a buffer"),
    "read as a number": (RECEIVES.format("z = float(y[2])"), 6, 7, "read a buffer"),
    "printed": (RECEIVES.format("print(y)"), 6, 7, "read a buffer"),
    "made a list": (RECEIVES.format("z = y.tolist()"), 6, 7, "read a buffer"),
    "read by numpy": (RECEIVES.format("z = y.numpy().sum()"), 6, 7, "read a buffer"),
    "copied from": (RECEIVES.format("x.copy_(y)"), 6, 7, "read a buffer"),
    "read with its surroundings": (RECEIVES.replace("(y, 0)", "(x[1:3], 0)").replace("send(x", "send(x[:2]").format(
        "z = x.sum()"), 6, 7, "read a buffer"),
    "sent on": (RECEIVES.format("p = dist.isend(y, 0, tag=5)"), 6, 7, "read a buffer"),
    "written": (RECEIVES.format("y[0] = 3"), 6, 7, "Rank 1 wrote into a buffer"),
    "received into twice": (RECEIVES.format("p = dist.irecv(y[3:], 0, tag=1)"), 6, 7, "Rank 1 receives into memory"),
    "sent and changed": (SENDS.format("x.mul_(2)"), 6, 7, "Rank 0 changed the buffer"),
    "sent and changed through a view": (SENDS.format("x.view(2, 2)[1].zero_()"), 6, 7, "changed the buffer"),
    "sent and received into": (SENDS.format("p = dist.irecv(x, 1, tag=1)"), 6, 7, "receives into memory"),
    "sent and reduced": (
        "q = dist.isend(x, 1 - r)\np = dist.irecv(y, 1 - r)\ndist.all_reduce(x)\np.wait(); q.wait()", 4, 6, "changed"
    ),
    "a sum read": (REDUCES.format("z = x / n"), 4, 5, "read a tensor"),
    "a sum changed": (REDUCES.format("x /= n"), 4, 5, "changed a tensor"),
    "a root's tensor changed": (
        "w = dist.broadcast(x, 0, async_op=True)\nif r == 0: x.zero_()\nw.wait()", 4, 5, "Rank 0 changed a tensor"
    ),
    "a gathered list read": (
        "o = [torch.zeros(4) for _ in range(n)]\nw = dist.all_gather(o, x, async_op=True)\nz = torch.cat(o)\nw.wait()",
        5, 6, "read a tensor",
    ),
    "an optimizer's step": (
        "p = torch.nn.Parameter(x); (p * 2).sum().backward()\no = torch.optim.SGD([p], 0.1)\n"
        "w = dist.all_reduce(p.grad, async_op=True)\no.step()\nw.wait()", 6, 7, "read a tensor",
    ),
    "gradients reduced by hooks": (
        "p = torch.nn.Parameter(x); ws = []\n"
        "p.register_post_accumulate_grad_hook(lambda p: ws.append(dist.all_reduce(p.grad, async_op=True)))\n"
        "(p * 2).sum().backward()\nz = p.grad / n\nws[0].wait()", 5, 7, "read a tensor",
    ),
}  # fmt: skip
RIGHT = {
    "read what is sent": SENDS.format("z = x + 1; s = str(x); p = dist.isend(x, 1, tag=1)\n    dist.send(x, 1, tag=2)")
    .replace("dist.recv(y, 0)", "[dist.recv(y, 0, tag=t) for t in (0, 2, 1)]") + "; p.wait()",
    "shapes alone": RECEIVES.format("z = torch.zeros_like(y), torch.empty_like(y), y.shape, y.view(2, 2), y[0]"),
    "memory beside it": RECEIVES.replace("y, 0", "y[:2], 0").replace("send(x", "send(x[:2]").format("y[2:] += y[2:]"),
    "columns beside it": (
        "m = torch.zeros(4, 4)\nq = dist.irecv(m[1, 2:], 1 - r); p = dist.isend(x[:2], 1 - r)\n"
        "m[:, 0] = m[:, 1] + 1\nq.wait(); p.wait()"
    ),
    "an array for later": RECEIVES.format("z = y.numpy()[1:]") + "; z.sum()",
    "a future": "w = dist.all_reduce(x, async_op=True)\nz = w.get_future().wait()[0] + x",
    "a future that is asked": "f = dist.all_reduce(x, async_op=True).get_future().then(lambda f: f.value()[0])\n"
    "while not f.done(): pass\nassert f.value()[0] == n",
    "a tensor that gloo fills in wait()": "dist.reduce_scatter_tensor(x[:2], y)\nassert x[0] == 0",
    "waits one by one": (
        "ws = [(t, dist.all_reduce(t, async_op=True)) for t in (x, y)]\nfor t, w in ws:\n    w.wait(); t /= n"
    ),
    "hooks of DDP": (
        "from torch.nn.parallel import DistributedDataParallel as DDP\n"
        "def hook(_, bucket):\n"
        "    w = dist.all_reduce(bucket.buffer().div_(n), async_op=True)\n"
        "    return w.get_future().then(lambda done: done.value()[0])\n"
        "m = DDP(torch.nn.Linear(4, 2)); m.register_comm_hook(None, hook); m(x).sum().backward()"
    ),
    "a DDP that one joins": (
        "from torch.nn.parallel import DistributedDataParallel as DDP\n"
        "m = DDP(torch.nn.Linear(4, 2))\n"
        "with m.join():\n    for _ in range(1 + 2 * r): m(x).sum().backward()"
    ),
    "groups that all make": "a, b = dist.new_group([0]), dist.new_group([1])\ndist.all_reduce(x, group=b if r else a)",
    "a group of its own ranks": "dist.new_group([r], use_local_synchronization=True)",
}  # fmt: skip


def run(engines: Engines, engine: str, body: str, watched: bool = True) -> Run:
    source = HEAD + textwrap.indent(body, "    ")
    program = Program(source, "learner.py", (Function("f"),), watched=watched, imported=("torch._dynamo",))
    return engines.run(engine, program, 2, [same_for_all(2)], 1, QUICK, strictly=True)


@pytest.mark.parametrize("name", SOON)
def test_both_lines_are_named(engines: Engines, name: str) -> None:
    body, posted, line, words = SOON[name]
    _check(run(engines, "sim", body), posted, line, words)


@pytest.mark.parametrize("name", ["printed", "sent on", "received into twice", "a sum changed", "a gathered list read"])
def test_both_lines_are_named_on_real_processes(engines: Engines, name: str) -> None:
    body, posted, line, words = SOON[name]
    _check(run(engines, "gloo", body), posted, line, words)


def _check(run: Run, posted: int, line: int, words: str) -> None:
    found = [*run.diagnoses, *(each for call in run.calls for each in call.diagnoses)][0]
    assert (found.kind, found.line) == ("race", line), found.message
    assert words in found.message
    assert f"(line {posted}: " in found.message


@pytest.mark.parametrize("engine", ["sim", pytest.param("gloo", marks=pytest.mark.heavy)])
@pytest.mark.parametrize("body", RIGHT.values(), ids=RIGHT)
def test_what_is_right_gets_no_word(engines: Engines, engine: str, body: str) -> None:
    done = run(engines, engine, body)
    assert done.finished, done.diagnoses
    assert done.calls[0].diagnoses == ()


def test_a_graded_program_is_not_watched(engines: Engines) -> None:
    done = run(engines, "sim", SOON["read by arithmetic"][0], watched=False)
    assert done.calls[0].diagnoses == ()
