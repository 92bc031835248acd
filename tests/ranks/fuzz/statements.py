"""One statement of one rank in a random program: what it is, and how it is written."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass


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
