"""Many ranks run as greenlets where they bear it, and on threads where they do not: either way it is the same run."""

from __future__ import annotations

import textwrap

import pytest
from often import often
from test_determinism import HEAD, LIMITS, digest

from grader.ranks.engines import Engines
from grader.ranks.network import ROUNDS
from grader.ranks.program import Program, same_for_all

MANY = 32
BEAR = {
    "messages": "y = x.clone(); q = dist.isend(x, (r + 1) % n); dist.recv(y, (r - 1) % n); q.wait(); return y",
    "a batch": (
        "y = x.clone()\nboth = [dist.P2POp(dist.isend, x, (r + 1) % n), dist.P2POp(dist.irecv, y, (r - 1) % n)]\n"
        "for q in dist.batch_isend_irecv(both): q.wait()\nreturn y"
    ),
    "collectives": "dist.all_reduce(x); print([r]); dist.barrier(); return x, random.random()",
    "groups": "g = [dist.new_group(range(k, n, 2)) for k in (0, 1)][r % 2]; return dist.get_rank(g)",
    "a thread that only computes": (
        "import threading\nout = []\nt = threading.Thread(target=lambda: out.append(x.sum())); t.start(); t.join()\n"
        "dist.barrier(); return out"
    ),
    "stuck": "try: dist.recv(x, (r + 1) % n)\nfinally: dist.barrier()",
    "to nobody": "dist.isend(x, n + 3).wait()",
    "a strided tensor": "dist.isend(torch.ones(4, 4)[:, 1], (r + 1) % n).wait()",
    "a crash": "dist.barrier()\nif r % 2: raise ValueError(r)\ndist.barrier()",
}
CANNOT = {
    "a backward pass": (
        "w = torch.ones(3, requires_grad=True)\n"
        "w.register_hook(lambda g: [g := g.clone(), dist.all_reduce(g)][0])\n(w * r).sum().backward(); return w.grad"
    ),
    "DDP": (
        "m = torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(3, 2))\n"
        "m(torch.ones(1, 3) * r).sum().backward(); return m.module.weight.grad"
    ),
    "a function of autograd": (
        "class F(torch.autograd.Function):\n    @staticmethod\n    def forward(c, y):\n"
        "        y = y.clone(); dist.all_reduce(y); return y\nreturn F.apply(x.requires_grad_()).detach()"
    ),
    "functional collectives": (
        "import torch.distributed._functional_collectives as f\n"
        "return f.wait_tensor(f.all_reduce(x, 'sum', dist.group.WORLD))"
    ),
    "no gradients": "with torch.no_grad(): dist.all_reduce(x)\nreturn x",
    "gradients off for some": "torch.set_grad_enabled(r % 2 == 0); dist.barrier(); return torch.is_grad_enabled()",
    "a device": "with torch.device('cpu'): dist.barrier()",
    "autocast": "with torch.autocast('cpu'): dist.barrier()\nreturn torch.is_autocast_enabled('cpu')",
    "a thread's own": "import threading\nown = threading.local(); own.x = r; dist.barrier(); return own.x",
    "a callback of C": "sorted([0, 1], key=lambda _: dist.barrier() or 0)",
    "a greenlet of its own": "import greenlet; greenlet.greenlet(dist.barrier).switch()",
}


@pytest.mark.parametrize("name", often([*BEAR, *CANNOT], "messages", "stuck", "DDP", "functional collectives"))
def test_greenlets_and_threads_make_the_same_run(engines: Engines, name: str) -> None:
    body = {**BEAR, **CANNOT}[name]
    code = Program.of(HEAD + textwrap.indent(body, "    "), "learner.py", "f")
    with engines.session() as first, engines.session() as second:
        second.threads = True
        runs = [
            engines.run("sim", code, MANY, [same_for_all(MANY)] * 2, 1, LIMITS, ROUNDS, session, strictly=True)
            for session in (first, second)
        ]
        assert first.threads == (name in CANNOT)
    assert digest(runs[0]) == digest(runs[1])
    assert runs[0].finished or name in ("stuck", "to nobody", "a strided tensor", "a crash")
