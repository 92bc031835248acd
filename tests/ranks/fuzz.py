"""Random small programs for ranks, from a seed: a global schedule of matched events, projected on ranks, then broken.

An unbroken program finishes: every rank does its part of each event in the schedule's order, waits for what it started
only later, and messages that could be confused have tags of their own. `broken` says what was done to one that may not.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass, replace

from grader.ranks.network import ROUNDS, Network
from grader.ranks.program import Program

HEAD = """\
import time
import torch, torch.distributed as dist
from grader import compute

def x(k, size, dtype="float32"):
    return (torch.arange(size) % 3 + dist.get_rank() + k % 5 + 1).to(getattr(torch, dtype))

def z(size, dtype="float32"):
    return torch.zeros(size, dtype=getattr(torch, dtype))

def f():
    r, n, out = dist.get_rank(), dist.get_world_size(), []
"""
DTYPES = ("float32", "float64", "int64", "int32", "uint8", "float16")
ITEM = {"float64": 8, "int64": 8, "float32": 4, "int32": 4, "float16": 2, "uint8": 1}
MOST_OPERATIONS = 12
RAISES = (
    'raise ValueError("boom")',
    "raise KeyError",
    "1 / 0",
    "[][1]",
    'raise RuntimeError("first line.\\nand more")',
    'raise SystemExit("no more")',
    "raise AssertionError",
    "raise MemoryError",
    "torch.zeros(2) + torch.zeros(3)",
)


@dataclass(frozen=True)
class Op:
    """One statement of one rank: its part of event number `event`.

    `peer` is the other rank or the root, `ranks` the group's ranks and `group` its name (empty: the world).
    """

    event: int
    name: str
    rank: int
    peer: int = -1
    size: int = 1
    dtype: str = "float32"
    tag: int = 0
    group: str = ""
    ranks: tuple[int, ...] = ()
    later: bool = False  # its request is waited for by a statement of its own
    reduction: str = "SUM"
    raw: str = ""
    parts: tuple[Op, ...] = ()

    @property
    def text(self) -> str:
        """The statement."""
        if self.raw:
            return self.raw
        if self.name == "wait":
            return self.parts[0].waiting
        if self.name in MESSAGES:
            return MESSAGES[self.name](self)
        return _collective(self)

    @property
    def collective(self) -> bool:
        return self.name in COLLECTIVES or self.name in OBJECTS

    @property
    def waiting(self) -> str:
        """The statement that waits for what this one started."""
        e, wait = self.event, f"w{self.event}.wait()"
        if self.name in ("isend", "barrier"):
            return wait
        if self.name == "batch":
            kept = "".join(f"; out.append(b{e}_{i})" for i, part in enumerate(self.parts) if part.name == "irecv")
            return f"[w.wait() for w in w{e}]{kept}"
        if self.name == "irecv_any":
            return f"[w.wait() for w in w{e}]; out.append(sorted(t.tolist() for t in t{e}))"
        return f"{wait}; {self.keep}" if self.keep else wait

    @property
    def keep(self) -> str:
        """The statement that puts what this rank gets among its results."""
        silent = self.name == "barrier" or (self.name in ("reduce", "gather") and self.rank != self.peer)
        return "" if silent else f"out.append(t{self.event})"

    @property
    def within(self) -> str:
        return f", group={self.group}" if self.group else ""


def _batch(op: Op) -> str:
    made, e = [], op.event
    for i, part in enumerate(op.parts):
        value = (
            f"x({e + i}, {part.size}, {part.dtype!r})" if part.name == "isend" else f"z({part.size}, {part.dtype!r})"
        )
        made.append(f"b{e}_{i} = {value}")
    posts = [
        f"dist.P2POp(dist.{part.name}, b{e}_{i}, {part.peer}{part.within}, tag={part.tag})"
        for i, part in enumerate(op.parts)
    ]
    return f"{'; '.join(made)}; w{e} = dist.batch_isend_irecv([{', '.join(posts)}])"


def _brings(op: Op, times: int = 1) -> str:
    return f"x({op.event}, {op.size * times}, {op.dtype!r})"


def _gets(op: Op, times: int = 1) -> str:
    return f"z({op.size * times}, {op.dtype!r})"


MESSAGES: dict[str, Callable[[Op], str]] = {
    "send": lambda op: f"dist.send({_brings(op)}, {op.peer}{op.within}, tag={op.tag})",
    "isend": lambda op: (
        f"s{op.event} = {_brings(op)}; w{op.event} = dist.isend(s{op.event}, {op.peer}{op.within}, tag={op.tag})"
    ),
    "recv": lambda op: (
        f"t{op.event} = {_gets(op)}; dist.recv(t{op.event}, {op.peer}{op.within}, tag={op.tag}); {op.keep}"
    ),
    "irecv": lambda op: (
        f"t{op.event} = {_gets(op)}; w{op.event} = dist.irecv(t{op.event}, {op.peer}{op.within}, tag={op.tag})"
    ),
    "recv_any": lambda op: (
        f"t{op.event} = [{_gets(op)} for _ in range({len(op.ranks) - 1})]\n"
        f"for t in t{op.event}: dist.recv(t{op.within}, tag={op.tag})\n"
        f"out.append(sorted(t.tolist() for t in t{op.event}))"
    ),
    "irecv_any": lambda op: (
        f"t{op.event} = [{_gets(op)} for _ in range({len(op.ranks) - 1})]\n"
        f"w{op.event} = [dist.irecv(t{op.within}, tag={op.tag}) for t in t{op.event}]"
    ),
    "batch": _batch,
    "send_object_list": lambda op: f"dist.send_object_list([{op.event}, 'a' * r], {op.peer}{op.within})",
    "recv_object_list": lambda op: (
        f"t{op.event} = [None, None]; dist.recv_object_list(t{op.event}, {op.peer}{op.within}); {op.keep}"
    ),
}


def _list(op: Op, one: str) -> str:
    return f"[{one} for k in range({len(op.ranks)})]"


# what makes t, the tensor or list that a rank gets something in, and the arguments of the call
COLLECTIVES: dict[str, Callable[[Op], tuple[str, str]]] = {
    "all_reduce": lambda op: (_brings(op), f"t{op.event}, op=dist.ReduceOp.{op.reduction}"),
    "broadcast": lambda op: (_brings(op), f"t{op.event}, src={op.peer}"),
    "reduce": lambda op: (_brings(op), f"t{op.event}, dst={op.peer}, op=dist.ReduceOp.{op.reduction}"),
    "all_gather": lambda op: (_list(op, _gets(op)), f"t{op.event}, {_brings(op)}"),
    "all_gather_into_tensor": lambda op: (_gets(op, len(op.ranks)), f"t{op.event}, {_brings(op)}"),
    "gather": lambda op: (
        _list(op, _gets(op)) if op.rank == op.peer else "None",
        f"{_brings(op)}, t{op.event}, dst={op.peer}",
    ),
    "scatter": lambda op: (
        _gets(op),
        f"t{op.event}, {_list(op, _brings(op) + ' + k') if op.rank == op.peer else None}, src={op.peer}",
    ),
    "reduce_scatter": lambda op: (_gets(op), f"t{op.event}, {_list(op, _brings(op) + ' + k')}"),
    "reduce_scatter_tensor": lambda op: (_gets(op), f"t{op.event}, {_brings(op, len(op.ranks))}"),
    "all_to_all": lambda op: (_list(op, _gets(op)), f"t{op.event}, {_list(op, _brings(op) + ' + k')}"),
    "all_to_all_single": lambda op: (_gets(op, len(op.ranks)), f"t{op.event}, {_brings(op, len(op.ranks))}"),
    "barrier": lambda op: ("", ""),
}
OBJECTS: dict[str, Callable[[Op], tuple[str, str]]] = {
    "monitored_barrier": lambda op: ("None", ""),
    "all_gather_object": lambda op: (f"[None] * {len(op.ranks)}", f"t{op.event}, {{'rank': r, 'e': [{op.event}] * r}}"),
    "broadcast_object_list": lambda op: (f"[r, 'b' * {op.event}]", f"t{op.event}, src={op.peer}"),
    "gather_object": lambda op: (
        f"[None] * {len(op.ranks)}" if op.rank == op.peer else "None",
        f"(r, 'g'), t{op.event}, dst={op.peer}",
    ),
    "scatter_object_list": lambda op: (
        "[None]",
        f"t{op.event}, {list(range(len(op.ranks))) if op.rank == op.peer else None}, src={op.peer}",
    ),
}
ROOTED = ("broadcast", "reduce", "gather", "scatter", "broadcast_object_list", "gather_object", "scatter_object_list")


def _collective(op: Op) -> str:
    made, arguments = (COLLECTIVES | OBJECTS)[op.name](op)
    told = ", ".join(
        part
        for part in (arguments, f"group={op.group}" if op.group else "", "async_op=True" if op.later else "")
        if part
    )
    before = f"t{op.event} = {made}; " if made else ""
    after = f"; {op.keep}" if op.keep and not op.later else ""
    return f"{before}{f'w{op.event} = ' if op.later else ''}dist.{op.name}({told}){after}"


@dataclass(frozen=True)
class Fuzzed:
    """A program and how to run it. `broken` names what was done to it; empty: it finishes, unless faults befall it."""

    seed: int
    source: str
    ranks: int
    calls: int
    network: Network
    faults: tuple[str, ...]
    broken: tuple[str, ...]

    @property
    def program(self) -> Program:
        return Program.of(self.source, "learner.py", "f", ())

    def __str__(self) -> str:
        numbered = "\n".join(f"{i:3} {line}" for i, line in enumerate(self.source.splitlines(), 1))
        how = f"{self.ranks} ranks, {self.calls} calls, {self.network}, faults {self.faults}, broken by {self.broken}"
        return f"seed {self.seed}: {how}\n{numbered}"


class _Writer:
    """Draws the schedule, and with it every rank's statements."""

    def __init__(self, draw: random.Random, ranks: int, plain: bool) -> None:
        self.draw, self.ranks, self.plain = draw, ranks, plain
        self.world = tuple(range(ranks))
        self.groups: dict[str, tuple[int, ...]] = {}
        self.code: list[list[Op]] = [[] for _ in range(ranks)]
        self.open: list[list[Op]] = [[] for _ in range(ranks)]
        self.event = 0

    def write(self) -> None:
        draw = self.draw
        for k in range(draw.choice((0, 0, 1, 2))):
            self.groups[f"g{k}"] = tuple(sorted(draw.sample(self.world, draw.randint(1, self.ranks))))
        most = draw.randint(2, MOST_OPERATIONS - 1)
        while max(map(len, self.code)) + max(map(len, self.open)) < most:
            self.event += 1
            draw.choices(
                (self.message, self.shift, self.fan_in, self.collective, self.objects, self.work), (6, 3, 1, 7, 1, 2)
            )[0]()
            for rank in self.world:
                self.wait(rank, 0.4)
        self.event += 1
        for rank in self.world:
            self.wait(rank, 1.0)

    def wait(self, rank: int, chance: float) -> None:
        """Wait for some of what a rank has started."""
        for op in list(self.open[rank]):
            if self.draw.random() < chance:
                self.open[rank].remove(op)
                self.code[rank].append(Op(self.event, "wait", rank, parts=(op,)))

    def put(self, op: Op) -> None:
        self.code[op.rank].append(op)
        if op.later or op.name in ("isend", "irecv", "irecv_any", "batch"):
            self.open[op.rank].append(op)

    def some_group(self, least: int) -> tuple[str, tuple[int, ...]]:
        fitting = [(name, ranks) for name, ranks in self.groups.items() if len(ranks) >= least]
        return self.draw.choice(fitting) if fitting and self.draw.random() < 0.4 else ("", self.world)

    def one(self, rank: int, name: str, **more: object) -> Op:
        return Op(self.event, name, rank, **more)  # type: ignore[arg-type]

    # ---- events

    def message(self) -> None:
        """One rank sends to another."""
        group, ranks = self.some_group(2)
        if len(ranks) < 2:
            return self.work()
        draw = self.draw
        source, target = draw.sample(ranks, 2)
        if draw.random() < 0.07:
            self.put(self.one(source, "send_object_list", peer=target, group=group))
            self.put(self.one(target, "recv_object_list", peer=source, group=group))
            return None
        more = {
            "size": draw.randint(0, 6), "dtype": draw.choice(DTYPES), "tag": draw.choice((0, 0, 0, 3)), "group": group,
        }  # fmt: skip
        sends, receives = self.one(source, "isend", peer=target, **more), self.one(target, "irecv", peer=source, **more)
        for op, blocking in ((sends, "send"), (receives, "recv")):
            kind = draw.choice((blocking, op.name, "batch"))
            self.put(self.one(op.rank, "batch", parts=(op,)) if kind == "batch" else replace(op, name=kind))
        return None

    def shift(self) -> None:
        """Every rank of a group sends to its neighbour, and receives from the other."""
        group, ranks = self.some_group(2)
        if len(ranks) < 2:
            return self.work()
        draw, batch, n = self.draw, self.draw.random() < 0.5, len(ranks)
        by = draw.randint(1, n - 1)
        more = {"size": draw.randint(1, 6), "dtype": draw.choice(DTYPES), "tag": draw.choice((0, 5)), "group": group}
        first = self.event
        self.event += 1
        for i, rank in enumerate(ranks):
            sends = Op(first, "isend", rank, peer=ranks[(i + by) % n], **more)  # type: ignore[arg-type]
            receives = Op(first + 1, "recv", rank, peer=ranks[(i - by) % n], **more)  # type: ignore[arg-type]
            if batch:
                self.put(self.one(rank, "batch", parts=(sends, replace(receives, name="irecv"))))
            else:
                self.put(sends)
                self.put(receives)
        return None

    def fan_in(self) -> None:
        """All others of a group send to one rank, which receives from any source."""
        group, ranks = self.some_group(2)
        if len(ranks) < 2:
            return self.work()
        target = self.draw.choice(ranks)
        more = {
            "size": self.draw.randint(1, 4),
            "dtype": self.draw.choice(DTYPES),
            "tag": 100 + self.event,
            "group": group,
        }
        for rank in ranks:
            if rank != target:
                self.put(self.one(rank, self.draw.choice(("send", "isend")), peer=target, **more))
        self.put(self.one(target, self.draw.choice(("recv_any", "irecv_any")), ranks=ranks, **more))
        return None

    def collective(self, names: tuple[str, ...] = tuple(COLLECTIVES)) -> None:
        group, ranks = self.some_group(1)
        draw, name = self.draw, self.draw.choice(names)
        size = draw.randint(0 if name == "all_reduce" else 1, 5)
        reduction = draw.choice(("SUM", "SUM", "MAX", "MIN", "PRODUCT"))
        later = name in COLLECTIVES and draw.random() < 0.3
        root, dtype = draw.choice(ranks) if name in ROOTED else -1, draw.choice(DTYPES)
        for rank in ranks:
            self.put(Op(self.event, name, rank, root, size, dtype, 0, group, ranks, later=later, reduction=reduction))

    def objects(self) -> None:
        """On real processes nobody sees who waits in a monitored_barrier."""
        self.collective(tuple(name for name in OBJECTS if not self.plain or name != "monitored_barrier"))

    def work(self) -> None:
        rank = self.draw.choice(self.world)
        seconds = self.draw.choice((0, 0.001, 0.002)) if self.plain else self.draw.choice((0, 0.5, 1, 2, 3.25))
        verb = self.draw.choice(("compute", "compute", "time.sleep"))
        self.put(self.one(rank, "work", raw=f"{verb}({seconds})"))


class _Breaker:
    """Breaks a program in one place."""

    def __init__(self, writer: _Writer, plain: bool) -> None:
        self.writer, self.draw, self.plain, self.code = writer, writer.draw, plain, writer.code

    def break_one(self) -> str:
        """Break one statement. Returns what was done; empty if nothing was found to do it to."""
        ways: dict[str, int] = {
            "skip": 4, "swap": 4, "root": 3, "size": 3, "dtype": 3, "other": 3, "tag": 3, "peer": 3, "raises": 3,
            "returns": 3, "unwaited": 3, "extra": 2, "shape": 4,
        }  # fmt: skip
        if not self.plain:  # what gloo does there depends on chance, or the sentence is a real process's own
            ways |= {
                "changes": 2, "reuses": 2, "catches": 3, "reraises": 2, "polls": 2, "strided": 2, "nonsense": 2,
                "stranger": 2, "destroys": 1, "exits": 1, "prints": 1, "reduction": 2,
            }  # fmt: skip
        rank = self.draw.choice([rank for rank in self.writer.world if self.code[rank]] or [0])
        way: str = self.draw.choices(list(ways), list(ways.values()))[0]
        done: bool = getattr(self, way)(self.code[rank])
        return f"{way} on rank {rank}" if done else ""

    def pick(self, code: list[Op], fits: Callable[[Op], bool]) -> int:
        return self.draw.choice([i for i, op in enumerate(code) if fits(op) and not op.raw] or [-1])

    def change(self, code: list[Op], fits: Callable[[Op], bool], change: Callable[[Op], Op]) -> bool:
        """Put another statement in the place of one that fits; its wait goes with it."""
        place = self.pick(code, fits)
        if place < 0:
            return False
        before = code[place]
        code[place] = after = change(before)
        for i, op in enumerate(code):
            if op.name == "wait" and op.parts[0] is before:
                code[i] = replace(op, parts=(after,))
        return after != before

    # ---- ways

    def skip(self, code: list[Op]) -> bool:
        place = self.pick(code, lambda op: op.name != "wait")
        if place < 0:
            return False
        gone = code.pop(place)
        code[:] = [op for op in code if not (op.name == "wait" and op.parts[0] is gone)]
        return True

    def swap(self, code: list[Op]) -> bool:
        place = self.draw.randrange(max(1, len(code) - 1))
        if len(code) < 2 or (code[place + 1].name == "wait" and code[place + 1].parts[0] is code[place]):
            return False
        code[place : place + 2] = reversed(code[place : place + 2])
        return True

    def root(self, code: list[Op]) -> bool:
        return self.change(
            code, lambda op: op.name in ROOTED and len(op.ranks) > 1 and (not self.plain or op.name in COLLECTIVES),
            lambda op: replace(op, peer=self.draw.choice([rank for rank in op.ranks if rank != op.peer])),
        )  # fmt: skip

    def size(self, code: list[Op]) -> bool:
        """On real processes a message longer than its receive ends the process, a shorter one is read; and a collective
        of another size may end it before it has told what it joined."""

        def other(op: Op) -> Op:
            by = self.draw.choice((-1, 1, 2))
            if self.plain:
                by = 1 if op.name in ("recv", "irecv") else -1
            return replace(op, size=max(0, op.size + by))

        messages = ("send", "isend", "recv", "irecv")
        return self.change(code, lambda op: op.name in messages or (self._sized(op) and not self.plain), other)

    def _sized(self, op: Op) -> bool:
        """In all_to_all sizes need not agree, and gloo finds out late or not at all."""
        return op.name in COLLECTIVES and op.name != "barrier" and not (self.plain and op.name.startswith("all_to"))

    def dtype(self, code: list[Op]) -> bool:
        def other(op: Op) -> Op:
            alike = [d for d in DTYPES if d != op.dtype and (ITEM[d] == ITEM[op.dtype] or not self.plain)]
            return replace(op, dtype=self.draw.choice(alike or [op.dtype]))

        return self.change(code, lambda op: op.name in ("send", "recv", "isend", "irecv") or self._sized(op), other)

    def reduction(self, code: list[Op]) -> bool:
        return self.change(
            code, lambda op: op.name in ("all_reduce", "reduce"),
            lambda op: replace(op, reduction=self.draw.choice(("SUM", "MAX", "BAND", "AVG"))),
        )  # fmt: skip

    def shape(self, code: list[Op]) -> bool:
        """The same memory in another shape: nobody minds."""
        return self.rewrite(
            code,
            lambda op: op.name in ("all_reduce", "broadcast", "reduce") and op.size > 1,
            lambda op: op.text.replace("; ", f"; t{op.event} = t{op.event}.view(-1, 1); ", 1),
        )

    def other(self, code: list[Op]) -> bool:
        """Another collective."""

        def change(op: Op) -> Op:
            name = self.draw.choice([name for name in COLLECTIVES if name != op.name])
            return replace(op, name=name, peer=op.ranks[0] if name in ROOTED else -1)

        return self.change(code, lambda op: op.name in COLLECTIVES, change)

    def tag(self, code: list[Op]) -> bool:
        return self.change(
            code, lambda op: op.name in ("send", "recv", "isend", "irecv"), lambda op: replace(op, tag=op.tag + 1)
        )

    def peer(self, code: list[Op]) -> bool:
        """Perhaps itself, or a rank that there is not."""
        return self.change(
            code, lambda op: op.name in ("send", "recv", "isend", "irecv"),
            lambda op: replace(op, peer=self.draw.randint(0, self.writer.ranks)),
        )  # fmt: skip

    def insert(self, code: list[Op], raw: str) -> bool:
        place = self.draw.randint(0, len(code))
        event = code[place].event if place < len(code) else self.writer.event
        code.insert(place, Op(event, "raw", self.code.index(code), raw=raw))
        return True

    def raises(self, code: list[Op]) -> bool:
        return self.insert(code, self.draw.choice(RAISES))

    def returns(self, code: list[Op]) -> bool:
        return self.insert(code, "return out")

    def prints(self, code: list[Op]) -> bool:
        return self.insert(code, "print('here', r, flush=True)")

    def destroys(self, code: list[Op]) -> bool:
        return self.insert(code, "dist.destroy_process_group()")

    def exits(self, code: list[Op]) -> bool:
        return self.insert(code, f"import os; os._exit({self.draw.choice((0, 3))})")

    def unwaited(self, code: list[Op]) -> bool:
        """Real processes do not tell of collectives that nobody waited for."""
        place = self.pick(code, lambda op: op.name == "wait" and not (self.plain and op.parts[0].collective))
        return bool(place >= 0 and code.pop(place))

    def extra(self, code: list[Op]) -> bool:
        rank, others = self.code.index(code), self.writer.ranks - 1
        if not others:
            return False
        peer = (rank + self.draw.randint(1, others)) % self.writer.ranks
        name = self.draw.choice(("send", "isend", "recv", "irecv", "barrier"))
        return self.insert(code, Op(90, name, rank, peer, size=2, tag=9).text)

    def rewrite(self, code: list[Op], fits: Callable[[Op], bool], text: Callable[[Op], str]) -> bool:
        """Another text for a statement."""
        place = self.pick(code, fits)
        if place >= 0:
            code[place] = replace(code[place], raw=text(code[place]))
        return place >= 0

    def changes(self, code: list[Op]) -> bool:
        """The buffer, while it is sent."""
        return self.rewrite(code, lambda op: op.name == "isend", lambda op: f"{op.text}; s{op.event} += 1")

    def reuses(self, code: list[Op]) -> bool:
        """Receives into the memory that it sends from."""
        return self.rewrite(
            code, lambda op: op.name == "isend" and op.size > 0,
            lambda op: f"{op.text}; v = dist.irecv(s{op.event}, {op.peer}, tag=77)",
        )  # fmt: skip

    def catches(self, code: list[Op]) -> bool:
        def text(op: Op) -> str:
            lines = op.text.replace("\n", "\n    ")
            what = self.draw.choice(("RuntimeError", "Exception", "BaseException"))
            then = self.draw.choice(("out.append('caught')", "pass", "return 'caught'", "dist.barrier()"))
            return f"try:\n    {lines}\nexcept {what}: {then}"

        return self.rewrite(code, lambda op: True, text)

    def reraises(self, code: list[Op]) -> bool:
        def text(op: Op) -> str:
            lines = op.text.replace("\n", "\n    ")
            return f"try:\n    {lines}\n    1 / 0\nexcept Exception as error: raise KeyError('lost') from error"

        return self.rewrite(code, lambda op: True, text)

    def polls(self, code: list[Op]) -> bool:
        def text(op: Op) -> str:
            return f"for _ in range(3):\n    if not w{op.parts[0].event}.is_completed(): compute(0.5)\n{op.text}"

        return self.rewrite(
            code, lambda op: op.name == "wait" and op.parts[0].name not in ("batch", "irecv_any"), text
        )  # fmt: skip

    def strided(self, code: list[Op]) -> bool:
        return self.insert(code, "dist.all_reduce(torch.zeros(3, 2)[:, 0])")

    def nonsense(self, code: list[Op]) -> bool:
        return self.insert(
            code,
            self.draw.choice(
                (
                    "dist.send('x', 0)", "dist.all_reduce(None)", "dist.broadcast(z(2), src=-1)", "dist.send(z(2), -1)",
                    "dist.all_gather([z(2)] * (n + 1), z(2))", "dist.scatter(z(1), [z(1)], src=0)", "dist.recv()",
                    "dist.send(z(2), 0, tag=-1)", "dist.all_to_all_single(z(3), z(5))", "dist.new_group([0, 99])",
                    "dist.init_process_group('gloo')", "dist.all_reduce(z(2), op=17)", "compute(-1)",
                    "dist.batch_isend_irecv([])", "dist.isend(z(1), 0).wait('now')", "dist.get_process_group_ranks(5)",
                )
            ),
        )  # fmt: skip

    def stranger(self, code: list[Op]) -> bool:
        """Call a collective or send in a group, perhaps one that this rank is not in."""
        if not self.writer.groups:
            return False
        group = self.draw.choice(list(self.writer.groups))
        call = self.draw.choice(("all_reduce(z(2)", "send(z(2), 0", "broadcast(z(2), src=0", "barrier("))
        return self.insert(code, f"dist.{call}, group={group})".replace("(, ", "("))


def _render(writer: _Writer, branches: bool) -> str:
    """The source: a branch for each rank, or one statement after another, each for the ranks that take part in it."""
    lines = [f"g{k} = dist.new_group({list(ranks)})" for k, ranks in enumerate(writer.groups.values())]
    in_order = all(code == sorted(code, key=lambda op: op.event) for code in writer.code)
    if branches or not in_order:
        for rank, code in enumerate(writer.code):
            lines.append(f"if r == {rank}:")
            lines += _indented("\n".join(op.text for op in code) or "pass")
    else:
        taken = [0] * writer.ranks
        for event in sorted({op.event for code in writer.code for op in code}):
            texts: dict[str, list[int]] = {}
            for rank, code in enumerate(writer.code):
                mine = []
                while taken[rank] < len(code) and code[taken[rank]].event == event:
                    mine.append(code[taken[rank]].text)
                    taken[rank] += 1
                if mine:
                    texts.setdefault("\n".join(mine), []).append(rank)
            for text, ranks in texts.items():
                everybody = len(ranks) == writer.ranks
                lines += text.split("\n") if everybody else [f"if r in {tuple(ranks)}:", *_indented(text)]
    return HEAD + "\n".join(_indented("\n".join([*lines, "return out"]))) + "\n"


def _indented(text: str) -> list[str]:
    return [f"    {line}" for line in text.split("\n")]


def _network(draw: random.Random) -> Network:
    eager = draw.choice((-1, -1, 0, 8, 64))
    alpha, beta = draw.choice((0.0, 1.0, 1.0, 1e-6)), draw.choice((0.0, 0.25, 1e-9))
    if draw.random() < 0.3:
        return Network(alpha, beta, eager, draw.randint(1, 3), 10 * alpha, 2 * beta)
    return Network(alpha, beta, eager)


def _faults(draw: random.Random, ranks: int) -> tuple[str, ...]:
    def one() -> str:
        a, b = draw.sample(range(ranks), 2)
        op, time = draw.randint(1, 6), draw.choice((0, 0.5, 1, 2, 3, 7.5))
        silent, once = draw.choice(("", "", ",silent")), draw.choice(("", f"@op={draw.randint(1, 2)}"))
        cut = draw.randint(1, ranks - 1)
        sides = "|".join(",".join(map(str, side)) for side in (range(cut), range(cut, ranks)))
        return draw.choice(
            (
                f"kill:{a}@op={op}{silent}", f"kill:{a}@t={time}{silent}", f"slow:{a}x{draw.choice((0.5, 2, 10))}",
                f"slow:{a}-{b}x3", f"delay:{a}-{b}={draw.choice((0, 0.5, 4))}{once}", f"drop:{a}-{b}{once}",
                f"partition:{sides}@t={time:.0f}..{time + 5}", f"partition:{sides}@t={time:.0f}", f"partition:{a}|{b}",
            )
        )  # fmt: skip

    return tuple(one() for _ in range(draw.choice((1, 1, 2, 3))))


def generate(seed: int, plain: bool = False) -> Fuzzed:
    """The program of a seed. A `plain` one is for comparing engines: no faults, a network of rounds, and broken only in
    ways whose end does not depend on chance on real processes."""
    draw = random.Random(f"fuzz {seed} {plain}")
    ranks = draw.choice((2, 2, 3, 3, 4)) if plain else draw.randint(1, 6)
    writer = _Writer(draw, ranks, plain)
    writer.write()
    broken = []
    if draw.random() < 0.5:
        breaker = _Breaker(writer, plain)
        broken = [done for _ in range(1 if plain else draw.choice((1, 1, 1, 2, 3))) if (done := breaker.break_one())]
    source = _render(writer, branches=draw.random() < 0.4)
    if plain:
        return Fuzzed(seed, source, ranks, 1, ROUNDS, (), tuple(broken))
    faults = _faults(draw, ranks) if ranks > 1 and draw.random() < 0.3 else ()
    network = ROUNDS if draw.random() < 0.3 else _network(draw)
    return Fuzzed(seed, source, ranks, draw.choice((1, 1, 1, 2)), network, faults, tuple(broken))
