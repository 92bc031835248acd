"""The bugs on cards are real: the code fails as the card says, and with its line mended it does not."""

from __future__ import annotations

import contextlib
import re
import textwrap
from collections.abc import Callable
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any

import decks
import pytest
import torch

from grader.quiz.deck import Card
from grader.ranks.engines import Engines
from grader.ranks.network import ROUNDS
from grader.ranks.program import Limits, Program, Run, same_for_all

CARDS = {card.id: card for card in decks.cards() if card.kind == "bug"}
HEAD = "import os\nimport torch\nimport torch.distributed as dist\n"
QUICK = Limits(cpu_seconds=10, idle_seconds=2)


def code_of(card: Card, mended: str | None = None) -> str:
    """The card's code, with the line at fault replaced by `mended`, which keeps the line's indentation."""
    fenced = re.search(r"```python\n(.*?)```", card.question, re.DOTALL)
    assert fenced
    lines = fenced[1].split("\n")
    if mended is not None:
        assert card.bug_line
        line = lines[card.bug_line - 1]
        lines[card.bug_line - 1] = textwrap.indent(mended, line[: len(line) - len(line.lstrip())])
    return "\n".join(lines)


@dataclass(frozen=True)
class OnRanks:
    """A card's code on ranks: `f` calls it and returns plain data, `right` on each rank when mended."""

    mended: str
    f: str
    right: Any
    ranks: int = 4
    head: str = ""
    ending: str = "finished"  # with the bug


RUN = {
    "coll-bug-same-buffer": OnRanks(
        "parts = [torch.empty_like(x) for _ in range(world)]",
        "return gather_all(torch.tensor([float(dist.get_rank())])).tolist()",
        [[0.0, 1.0, 2.0, 3.0]] * 4,
    ),
    "accumulation-no-zero": OnRanks(
        "optimizer.zero_grad()\nloss.backward()",
        "return round(fit(torch.tensor([1.0, 2.0]), torch.tensor([2.0, 4.0])), 3)",
        [2.0] * 4,
    ),
    "coll-avg-int": OnRanks(
        "counts = counts / dist.get_world_size()", "return mean_count(dist.get_rank() + 1)", [2.5] * 4
    ),
    "coll-bug-source": OnRanks(
        "dist.broadcast(weights, src=0)",
        "return begin(torch.tensor([5.0 + dist.get_rank()])).tolist()",
        [[5.0]] * 4,
        ending="mismatched",
    ),
    "coll-bug-reduce": OnRanks(
        "dist.all_reduce(x)", "return mean(torch.tensor([1.0 + dist.get_rank()])).tolist()", [[2.5]] * 4
    ),
    "ring-bug-chunk": OnRanks(
        "chunks[(rank - step - 1) % n] += incoming",
        "return reduce_scatter([torch.tensor([10.0 ** c]) for c in range(4)]).tolist()",
        [[40.0], [400.0], [4000.0], [4.0]],
    ),
    "ddp-bug-module": OnRanks(
        "loss = criterion(model(x), y)",
        """torch.manual_seed(0)
model = DDP(torch.nn.Linear(1, 1))
train(model, [(torch.ones(2, 1) * dist.get_rank(), torch.ones(2, 1))])
weight = torch.cat([p.detach().flatten() for p in model.parameters()])
parts = [torch.empty_like(weight) for _ in range(dist.get_world_size())]
dist.all_gather(parts, weight)
return all(torch.equal(part, weight) for part in parts)""",
        [True] * 4,
        head="from torch.nn.parallel import DistributedDataParallel as DDP\ncriterion = torch.nn.functional.mse_loss\n",
    ),
    "tp-bug-bias": OnRanks(
        "y = x_part @ weight_part + bias * (dist.get_rank() == 0)",
        "return row_parallel(torch.ones(1, 1), torch.ones(1, 1), torch.ones(1)).tolist()",
        [[[5.0]]] * 4,
    ),
    "zero-bug-norm": OnRanks(
        "squares = sum(g.pow(2).sum() for g in shard_grads)\ndist.all_reduce(squares)\nnorm = squares.sqrt()",
        "return clip([torch.tensor([1.0 + 2.0 * (dist.get_rank() == 0)])], 1.0).item() ** 2",
        [pytest.approx(12.0)] * 4,
    ),
    "cp-bug-positions": OnRanks(
        "columns = k_rank * len(k) + torch.arange(len(k))",
        "return [int(masked_scores(torch.ones(2, 1), torch.ones(2, 1), k).isinf().sum()) for k in range(4)]",
        [[1, 4, 4, 4], [0, 1, 4, 4], [0, 0, 1, 4], [0, 0, 0, 1]],
    ),
    "ep-bug-group": OnRanks(
        "dist.all_reduce(p.grad, group=same_experts if 'experts.' in name else everybody)",
        """rank = dist.get_rank()
pairs = [dist.new_group([0, 2]), dist.new_group([1, 3])]
model = torch.nn.ModuleDict({name: torch.nn.Linear(1, 1, bias=False) for name in ("router", "experts")})
for p in model.parameters():
    p.grad = torch.full((1, 1), rank + 1.0)
average(model, None, pairs[rank % 2])
return [p.grad.item() for p in model.parameters()]""",
        [[2.5, 1.0], [2.5, 1.5], [2.5, 1.0], [2.5, 1.5]],
    ),
    "low-bug-codes": OnRanks(
        """parts = [torch.empty_like(codes) for _ in range(dist.get_world_size())]
dist.all_gather(parts, codes)
return sum(part.view(torch.float8_e4m3fn).float() for part in parts) * scale""",
        "return all_reduce_fp8(torch.ones(1)).tolist()",
        [[pytest.approx(4.0)]] * 4,
    ),
    "mesh-bug-share": OnRanks(
        "share = mesh['dp'].get_local_rank()",
        "return my_samples(list(range(4)), init_device_mesh('cpu', (2, 2), mesh_dim_names=('dp', 'tp')))",
        [[0, 2], [0, 2], [1, 3], [1, 3]],
        head="from torch.distributed.device_mesh import init_device_mesh\n",
    ),
    "opt-bug-muon": OnRanks(
        """parts = [torch.empty_like(momentum_rows) for _ in range(dist.get_world_size())]
dist.all_gather(parts, momentum_rows)
update = orthogonal(torch.cat(parts)).chunk(len(parts))[dist.get_rank()]""",
        """whole = torch.randn(8, 8, generator=torch.Generator().manual_seed(0))
mine, right = whole.chunk(4)[dist.get_rank()], orthogonal(whole).chunk(4)[dist.get_rank()]
return torch.allclose(step(torch.zeros(2, 8), mine, 1.0), -right, atol=1e-5)""",
        [True] * 4,
        head="def orthogonal(m):\n    u, _, v = torch.linalg.svd(m, full_matrices=False)\n    return u @ v\n",
    ),
    "ck-bug-barrier": OnRanks(
        "pass\ndist.barrier()",
        "torch.save, os.replace = (lambda *a: None), (lambda *a: None)\n"
        "save(torch.nn.Linear(1, 1), 'x')\ndist.all_reduce(torch.ones(1))\nreturn 1",
        [1] * 4,
        ending="mismatched",
    ),
}


def run(engines: Engines, name: str, mended: bool) -> Run:
    case, card = RUN[name], CARDS[name]
    code = code_of(card, case.mended if mended else None)
    if name == "ddp-bug-module":  # a loop: put it into a function, without the line that makes the model
        loop = "\n".join(code.split("\n")[1:])
        code = "def train(model, loader):\n    optimizer = torch.optim.SGD(model.parameters(), 0.1)\n"
        code += textwrap.indent(loop, "    ")
    if name == "ck-bug-barrier" and mended:  # the barrier, out of the `if`
        code = code.replace("        pass\n        dist.barrier()", "    dist.barrier()")
    source = f"{HEAD}{case.head}\n{code}\n\ndef f():\n{textwrap.indent(case.f, '    ')}\n"
    program = Program.of(source, "card.py", "f", ())
    return engines.run("sim", program, case.ranks, [same_for_all(case.ranks)], 1, QUICK, ROUNDS)


@pytest.mark.parametrize("name", RUN)
def test_the_code_with_its_line_mended_is_right(engines: Engines, name: str) -> None:
    done = run(engines, name, mended=True)
    assert done.ending == "finished", done.diagnoses
    assert list(done.calls[0].returned) == RUN[name].right


@pytest.mark.parametrize("name", RUN)
def test_the_code_on_the_card_is_wrong(engines: Engines, name: str) -> None:
    done = run(engines, name, mended=False)
    assert done.ending == RUN[name].ending, done.diagnoses
    assert not done.calls or not done.finished or list(done.calls[0].returned) != RUN[name].right


@dataclass(frozen=True)
class Plain:
    """A card's code in this process: an expression that is false with the bug, and true without it."""

    mended: str
    holds: str
    names: dict[str, Any] = field(default_factory=dict)


COUNT = (
    "(lambda a, b: (a.increment(), b.merge(a.counts), b.merge(a.counts), b.value())[-1] == 1)(Counter(1), Counter(2))"
)
CLOCK = type("time", (), {"monotonic": staticmethod(lambda: 5.0), "time": staticmethod(lambda: 1.7e9)})
START = "torch.zeros(3, 4), torch.zeros(3, 1), torch.full((3, 1), -1e9)"  # output, sum, maximum
TILES = f"""(lambda q, k, v: (lambda out, total, _: torch.allclose(out / total, torch.softmax(q @ k.T / 2, 1) @ v))(
    *add_tile(*add_tile({START}, q, k[:2], v[:2]), q, k[2:], v[2:]))
)(*torch.arange(36.0).sin().reshape(3, 3, 4))"""
FREED = "(lambda free: (drop([3, 4], {3: 2, 4: 1}, free), free == [4])[1])([])"
FORCED = (
    "(lambda log, seen: (decide(log, [lambda what, number: seen.append([*log])], 7, [True]), seen == [[7]])[1])([], [])"
)
HANDLED = """(lambda offsets: (tried(lambda: consume(SimpleNamespace(read=lambda since: [(0, "a")]), offsets, {}.pop)),
    offsets["committed"] == 0)[1])({"committed": 0})"""


class Refusing:
    """A balance of 1 that a commit finds changed to 5, once."""

    tries = 0

    def begin(self) -> Refusing:
        return self

    def read(self, _: str) -> int:
        return 5 if self.tries else 1

    def commit(self, _: str, value: int) -> int:
        self.tries += 1
        if self.tries == 1:
            raise InterruptedError
        return value


def tried(act: Callable[[], object]) -> None:
    with contextlib.suppress(KeyError):
        act()


HERE = {
    "con-bug-gcounter": Plain("self.counts[node] = max(self.counts.get(node, 0), count)", COUNT),
    "cau-bug-compare": Plain(
        "return all(a[node] <= b[node] for node in a) and a != b", "not happened_before({'n': 1}, {'n': 1})"
    ),
    "gossip-bug-in-place": Plain(
        "new = [(values[r - 1] + values[r] + values[(r + 1) % n]) / 3 for r in range(n)]\nreturn new",
        "abs(sum(gossip_round([9.0, 0.0, 0.0, 0.0])) - 9) < 1e-9",
    ),
    "acc-bug-active": Plain("matrices = 6 * active", "mfu(1, 100, 10, 0, 0, 0, 1, 60) == 1"),
    "flash-bug-correct": Plain("out = out * correction + weights @ v", TILES, {"torch": torch}),
    "ep-bug-bias": Plain(
        "weights = torch.softmax(logits.gather(1, chosen.indices), dim=1)",
        "route(torch.zeros(1, 4), torch.arange(4.0), 2)[1].tolist() == [[0.5, 0.5]]",
        {"torch": torch},
    ),
    "ia-bug-heads": Plain(
        "a_token = 2 * layers * kv_heads * head * itemsize", "cache_bytes(80, 64, 8, 128, 1) == 327_680"
    ),
    "cb-bug-order": Plain(
        "order = [*((name, 1) for name in writing), *reading.items()]",
        "plan(['a', 'b'], {'c': 900}, 512) == {'a': 1, 'b': 1, 'c': 510}",
    ),
    "pk-bug-free": Plain("if users[block] == 0:", FREED),
    "sp-bug-residual": Plain(
        "rest = [max(0.0, a - b) for a, b in zip(p, q)]",
        "next_token([0.5, 0.25, 0.25], [0.25, 0.75, 0.0], 1, lambda: 0.5) == 2",
    ),
    "zb-bug-put-off": Plain(
        "passes.append(f'W{i - stage}')", "sorted(order(2, 4, 8))[-8:] == [f'W{i}' for i in range(8)]"
    ),
    "iso-bug-retry": Plain(
        'balance = db.begin().read("balance")',
        "pay(Refusing(), 2) == 7",
        {"Refusing": Refusing, "Refused": InterruptedError},
    ),
    "mv-bug-validate": Plain("for key in read:", "not validate({'a': 5}, {'a'}, {'b'}, 3)"),
    "dt-bug-force": Plain(
        "log.append(number)\ntell(shards, 'commit', number)",
        FORCED,
        {"tell": lambda shards, what, number: [shard(what, number) for shard in shards]},
    ),
    "log-bug-offset": Plain(
        "handle(record)\noffsets['committed'] = offset + 1",
        HANDLED,
        {"SimpleNamespace": SimpleNamespace, "tried": tried},
    ),
    "fd-bug-wall-clock": Plain("now = time.monotonic()", "Monitor(['n'], 1.0).suspects() == []", {"time": CLOCK}),
}


@pytest.mark.parametrize("name", HERE)
def test_the_plain_code_fails_as_written_and_not_when_mended(name: str) -> None:
    held = []
    for mended in (None, HERE[name].mended):
        names: dict[str, Any] = dict(HERE[name].names)
        exec(code_of(CARDS[name], mended), names)
        held.append(bool(eval(HERE[name].holds, names)))
    assert held == [False, True]
