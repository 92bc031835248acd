"""The writer of random programs: a global schedule of matched events, projected on ranks.

What it writes finishes: every rank does its part of each event in the schedule's order, waits for what it started only
later, and messages that could be confused have tags of their own.
"""

from __future__ import annotations

import random
from dataclasses import replace

from fuzz.statements import COLLECTIVES, OBJECTS, ROOTED, Op

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
MOST_OPERATIONS = 12


class Writer:
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


def render(writer: Writer, branches: bool) -> str:
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
