"""A process group of simulated ranks: point-to-point operations and collectives on the scheduler.

A message's data is taken when the send is posted and handed over when its receive is waited for; a buffer that changed
in between is a race.
"""

from __future__ import annotations

import os
import sys
import threading
import types
from collections.abc import Callable
from typing import Any, NoReturn

import torch
import torch.distributed as dist

from grader.ranks.recorder import COLLECTIVES, ForbiddenCall
from grader.ranks.sim.scheduler import RECV, RECV_ANY, SEND, Op, Scheduler


class SimWork(dist.Work):  # type: ignore[misc]
    """The request of one simulated operation."""

    def __init__(self, context: Context, op: Op) -> None:
        super().__init__()
        self._context, self._op = context, op

    def wait(self, timeout: Any = None) -> bool:
        self._context.wait(self._op)
        return True

    def is_completed(self) -> bool:
        op, context = self._op, self._context
        completed = op.end is not None and op.end <= context.scheduler.current.clock
        if completed and not op.done:
            context.wait(op)
        return completed

    def is_success(self) -> bool:
        return self.is_completed()

    def synchronize(self) -> None:
        self.wait()

    def _source_rank(self) -> int:
        return self._op.peer

    source_rank = _source_rank

    def result(self) -> list[Any]:
        return [self._op.target]


class Context:
    """What the operations of all ranks share: the scheduler, the learner's file, what is allowed, who to tell."""

    def __init__(self, scheduler: Scheduler, file: str, p2p_only: bool, tell: Callable[[dict[str, Any]], None]) -> None:
        self.scheduler, self.file, self.p2p_only, self.tell = scheduler, file, p2p_only, tell
        self.open: list[dict[int, Op]] = [{} for _ in scheduler.ranks]

    def line(self) -> int:
        frame: types.FrameType | None = sys._getframe(2)
        while frame is not None:
            if frame.f_code.co_filename == self.file:
                return frame.f_lineno
            frame = frame.f_back
        return 0

    def must_be_the_rank(self) -> None:
        """A thread of the learner's own cannot take part: it is no rank, and holds no baton."""
        if threading.get_ident() != self.scheduler.current.thread:
            self.needs_processes("it communicates in a thread of its own")

    def needs_processes(self, why: str) -> NoReturn:
        """Give the whole run up: it can be done by real processes only."""
        self.tell({"event": "needs_processes", "why": why})
        os._exit(0)

    def start(self, kind: int, peer: int, tag: Any, tensor: torch.Tensor) -> SimWork:
        """Post one side of a message."""
        self.must_be_the_rank()
        if not tensor.is_contiguous():
            raise RuntimeError("input tensor has to be contiguous")
        scheduler, rank = self.scheduler, self.scheduler.current
        if kind != RECV_ANY and not 0 <= peer < len(scheduler.ranks):
            verb = "send to" if kind == SEND else "receive from"
            raise ValueError(f"{verb} rank {peer}, but the world has ranks 0 to {len(scheduler.ranks) - 1}")
        if peer == rank.number:
            verb = "send to" if kind == SEND else "receive from"
            raise ValueError(f"{verb} rank {peer}, which is this rank itself")
        if kind == RECV_ANY and not tensor.numel():
            raise RuntimeError("gloo cannot receive an empty message from any source: say from which rank it comes")
        line = self.line()
        mine = self.open[rank.number]
        begin = tensor.data_ptr()
        end = begin + tensor.nbytes
        if kind != SEND and mine:
            for other in mine.values():
                if other.kind == SEND and begin < other.memory[1] and other.memory[0] < end:
                    self.race("received_into", other, line)
        op = scheduler.post(kind, peer, tag, end - begin, line)
        op.target, op.memory = tensor, (begin, end)
        if kind == SEND:
            op.payload = tensor.detach().clone()
        mine[op.number] = op
        scheduler.match(op)
        return SimWork(self, op)

    def wait(self, op: Op) -> None:
        if op.done:
            return
        line = self.line()
        self.scheduler.wait(op, line)
        self.open[op.rank].pop(op.number, None)
        if op.kind == SEND:
            if not torch.equal(op.payload, op.target):
                self.race("changed", op, line)
        elif op.partner is not None:
            self._deliver(op, op.partner)

    @staticmethod
    def _deliver(receive: Op, send: Op) -> None:
        """Put what was sent into the receive's buffer, byte for byte, as gloo does."""
        data, buffer = send.payload, receive.target.detach()
        send.partner = receive.partner = None  # no cycles: the garbage collector is off
        if send.size > receive.size:
            raise RuntimeError(
                f"rank {receive.rank} receives {receive.size} bytes from rank {send.rank}, which sends {send.size}"
            )
        if data.dtype == buffer.dtype and data.shape == buffer.shape:
            buffer.copy_(data)
        elif data.dtype == buffer.dtype:
            buffer.view(-1)[: data.numel()].copy_(data.view(-1))
        else:
            buffer.view(-1).view(torch.uint8)[: send.size].copy_(data.view(-1).view(torch.uint8))

    def race(self, how: str, op: Op, line: int) -> None:
        self.tell({"event": "race", "rank": op.rank, "how": how, "line": line, "posted": op.line, "peer": op.peer})

    def forbid(self, name: str) -> None:
        self.must_be_the_rank()
        if self.p2p_only:
            line = self.line()
            rank = self.scheduler.current.number
            self.tell({"event": "forbidden", "rank": rank, "call": name, "line": line})
            raise ForbiddenCall(f"dist.{name} at line {line}")

    def close_call(self, rank: int) -> None:
        """At the end of a rank's call: what it never waited for is a race."""
        for op in self.open[rank].values():
            self.race("send_not_waited" if op.kind == SEND else "recv_not_waited", op, op.line)
        self.open[rank].clear()


class SimGroup(dist.ProcessGroup):  # type: ignore[misc]
    """One rank's handle on a group. `ranks` maps the group's rank numbers to the world's."""

    def __init__(self, context: Context, name: str, rank: int, ranks: list[int]) -> None:
        super().__init__(rank, len(ranks))
        self._context, self._name, self._ranks = context, name, ranks

    @property
    def group_name(self) -> str:
        return self._name

    def getBackendName(self) -> str:  # noqa: N802 - torch calls it so
        return "sim"

    def _tag(self, tag: int) -> Any:
        return (self._name, tag) if len(self._ranks) != len(self._context.scheduler.ranks) else tag

    def send(self, tensors: list[torch.Tensor], dst: int, tag: int = 0) -> SimWork:
        return self._context.start(SEND, self._world_rank(dst), self._tag(tag), tensors[0])

    def recv(self, tensors: list[torch.Tensor], src: int, tag: int = 0) -> SimWork:
        return self._context.start(RECV, self._world_rank(src), self._tag(tag), tensors[0])

    def recv_anysource(self, tensors: list[torch.Tensor], tag: int = 0) -> SimWork:
        return self._context.start(RECV_ANY, -1, self._tag(tag), tensors[0])

    def _get_backend(self, device: Any) -> _Backend:
        return _Backend(self._context)

    def _world_rank(self, rank: int) -> int:
        return self._ranks[rank] if 0 <= rank < len(self._ranks) else rank


class _Backend:
    """What stands behind a group; nothing of it is simulated."""

    supports_coalescing = False

    def __init__(self, context: Context) -> None:
        self._context = context

    def __getattr__(self, method: str) -> Any:
        self._context.forbid(COLLECTIVES.get(method, method))
        self._context.needs_processes(f"it uses the backend's own {method}")


def _refused(name: str) -> Any:
    def call(self: SimGroup, *_: Any, **__: Any) -> Any:
        self._context.forbid(name)
        self._context.needs_processes(f"it calls dist.{name}")

    return call


for _method, _name in COLLECTIVES.items():
    setattr(SimGroup, _method, _refused(_name))
