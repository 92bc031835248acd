"""The breaker of random programs: it does to one statement of one rank what people do by mistake, or on purpose."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from fuzz.statements import COLLECTIVES, ROOTED, Op
from fuzz.writer import DTYPES, Writer

ITEM = {"float64": 8, "int64": 8, "float32": 4, "int32": 4, "float16": 2, "uint8": 1}
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


class Breaker:
    """Breaks a program in one place."""

    def __init__(self, writer: Writer, plain: bool) -> None:
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
