"""What the operations of all simulated ranks share, and the requests they give back."""

from __future__ import annotations

import contextlib
import ctypes
import os
import threading
from collections.abc import Callable, Sequence
from typing import Any, NoReturn

import torch
import torch.distributed as dist

from grader.ranks.called import info_of
from grader.ranks.recorder import ForbiddenCall, in_backward, line_in
from grader.ranks.sim import collectives
from grader.ranks.sim.futures import SimFuture
from grader.ranks.sim.operations import Group, Meeting, Op
from grader.ranks.sim.progress import Progress
from grader.ranks.sim.scheduler import Scheduler
from grader.ranks.watch import Watch
from grader.trace.events import COLLECTIVE_CODES, RECV_ANY, SEND

_get_ident = threading.get_ident
_bytes_at = ctypes.PYFUNCTYPE(ctypes.py_object, ctypes.c_void_p, ctypes.c_ssize_t)(
    ("PyBytes_FromStringAndSize", ctypes.pythonapi)
)
_compare = ctypes.PYFUNCTYPE(ctypes.c_int, ctypes.c_char_p, ctypes.c_void_p, ctypes.c_size_t)(
    ctypes.cast(ctypes.CDLL(None).memcmp, ctypes.c_void_p).value or 0
)
_memmove = ctypes.PYFUNCTYPE(ctypes.c_void_p, ctypes.c_void_p, ctypes.c_char_p, ctypes.c_size_t)(
    ctypes.cast(ctypes.CDLL(None).memmove, ctypes.c_void_p).value or 0
)


class SimWork(dist.Work):  # type: ignore[misc]
    """The request of a simulated collective."""

    def __init__(self, context: Context, op: Op) -> None:
        super().__init__()
        self._context, self._op = context, op

    def wait(self, timeout: Any = None) -> bool:
        self._context.wait(self._op)
        return True

    def is_completed(self) -> bool:
        op, context = self._op, self._context
        completed = op.end is not None and op.end <= context.scheduler.current.clock
        if not completed and context.progress is not None and context.progress.asked(op):
            context.wait(op)  # or for ever, and the ranks that it waits for are named
            return True
        if not completed:
            context.scheduler.poll()
        elif not op.done:
            context.wait(op)
        return completed

    def is_success(self) -> bool:
        return self.is_completed()

    def synchronize(self) -> None:
        self.wait()

    def result(self) -> list[Any]:
        return self._context.targets(self._op)

    @property
    def span(self) -> tuple[float, float]:
        """The virtual times from when to when it moved data; it must have been waited for. Real requests have none."""
        assert self._op.start is not None, "wait() first"
        assert self._op.end is not None, "wait() first"
        return self._op.start, self._op.end

    def get_future(self) -> SimFuture:
        """A future of the tensors that the operation fills."""

        def resolve(future: SimFuture) -> None:
            self._context.wait(self._op)
            future.set_result(self._context.targets(self._op))

        future = SimFuture(self._context, resolve, self.is_completed)
        if self._op.done:
            future.settle()
        return future


class SimMessage:
    """The request of a simulated send or receive: to Python a SimWork too, without what C++ would need."""

    __slots__ = ("_context", "_op", "_ranks")

    def __init__(self, context: Context, op: Op, ranks: Sequence[int]) -> None:
        self._context, self._op, self._ranks = context, op, ranks

    def wait(self, timeout: Any = None) -> bool:
        if not self._op.done:
            self._context.wait_for_message(self._op)
        elif self._context.watches:
            self._context.race("waited_twice", self._op, self._context.line())
        return True

    def is_completed(self) -> bool:
        if not self._op.done:
            self._context.asks.asked(self._op)
        return self._op.done  # as gloo's: one has to wait

    is_success = is_completed

    def _source_rank(self) -> int:
        return self._ranks.index(self._op.peer)

    source_rank = _source_rank
    synchronize = SimWork.synchronize
    result = SimWork.result
    get_future = SimWork.get_future
    __class__ = property(lambda self: SimWork)


class Context:
    """What the operations of all ranks share: the scheduler, the learner's file, what is allowed, who to tell."""

    def __init__(
        self, scheduler: Scheduler, file: str, p2p_only: bool, tell: Callable[..., None], contents: bool = False,
        watched: bool = False,
    ) -> None:  # fmt: skip
        """With `contents` it tells what each message carries, with `watched` who reads or writes too soon."""
        self.scheduler, self.file, self.p2p_only, self.tell = scheduler, file, p2p_only, tell
        self._contents = contents
        self.watches = [Watch(file, self.line, self.race) for _ in scheduler.ranks] if watched else []
        self.asks = Progress(scheduler, self.line, tell)  # of every run: who only asks whether a message is over
        self.progress = self.asks if watched else None
        self.open: list[dict[int, Op]] = [{} for _ in scheduler.ranks]
        self.futures: list[list[SimFuture]] = [[] for _ in scheduler.ranks]
        self.kept: dict[int, Any] = {}  # by rank, a request that only C++ refers to
        self.calls_back: set[int] = set()  # ranks whose reducer reduces all after a backward pass
        self._groups: dict[tuple[str, Sequence[int]], Group] = {}

    # ---- where the learner's code is, and what it may do

    def line(self) -> int:
        return line_in(self.file)

    def must_be_the_rank(self) -> None:
        """A thread of the learner's own cannot take part: it is no rank, and holds no baton."""
        if threading.get_ident() != self.scheduler.current.thread:
            self.needs_processes("it communicates in a thread that it started")

    def needs_processes(self, why: str) -> NoReturn:
        """Give the whole run up: it can be done by real processes only."""
        self.tell({"event": "needs_processes", "why": why})
        os._exit(0)

    def forbid(self, name: str) -> None:
        self.must_be_the_rank()
        if self.p2p_only:
            self.refuse(f"dist.{name}")

    def refuse(self, name: str) -> None:
        """Tell of a call that is not allowed, and end the rank's."""
        line, rank = self.line(), self.scheduler.current.number
        self.tell({"event": "forbidden", "rank": rank, "call": name, "line": line})
        raise ForbiddenCall(f"{name} at line {line}")

    # ---- groups

    def group(self, name: str, ranks: Sequence[int]) -> Group:
        """The group of that name and ranks; the same for every rank that makes it."""
        key = name, ranks  # a range or a tuple: a range's hash does not grow with it
        if key not in self._groups:
            self._groups[key] = self.scheduler.group(ranks)
            self.tell({"event": "group", "group": self._groups[key].number, "ranks": list(ranks)})
        return self._groups[key]

    # ---- operations

    def start(self, kind: int, peer: int, tag: int, tensor: torch.Tensor, ranks: Sequence[int]) -> SimMessage:
        """Post one side of a message in a group of `ranks`."""
        scheduler = self.scheduler
        rank = scheduler.current
        me = rank.number
        if _get_ident() != rank.thread:
            self.must_be_the_rank()
        if not tensor.is_contiguous():
            raise RuntimeError("input tensor has to be contiguous")
        if kind != RECV_ANY:
            if peer == me or not 0 <= peer < len(scheduler.ranks):
                verb = "send to" if kind == SEND else "receive from"
                if peer == me:
                    raise ValueError(f"{verb} rank {peer}, which is this rank itself")
                raise ValueError(f"{verb} rank {peer}, but the world has ranks 0 to {len(scheduler.ranks) - 1}")
        elif not tensor.numel():
            raise RuntimeError("gloo cannot receive an empty message from any source: name the rank that sends it")
        tracing = scheduler.tracing
        line = self.line() if tracing else 0
        mine = self.open[me]
        begin, size = tensor.data_ptr(), tensor.nbytes
        end = begin + size
        if self.watches:
            self.watches[me].touch(tensor, writes=kind != SEND, receives=kind != SEND)
        elif kind != SEND and mine:
            for other in mine.values():
                if other.kind == SEND and begin < other.memory[1] and other.memory[0] < end:
                    self.race("received_into", other, line)
        op = scheduler.post(kind, peer, tag, size, line, info_of(tensor.dtype) | in_backward() if tracing else 0)
        op.target, op.memory = tensor, (begin, end)
        if kind == SEND:
            op.payload = _bytes_at(begin, size)
            if self._contents:
                self.tell({"event": "carried", "rank": me, "number": op.number}, op.payload)
        mine[op.number] = op
        if self.watches:
            self._watch_message(op, tensor)
        scheduler.match(op)
        return SimMessage(self, op, ranks)

    def join(self, group: Group, part: collectives.Part) -> SimWork:
        """Join the next collective of a group."""
        if part.name != "new_group":
            self.forbid(part.name)
        if part.root >= len(group.ranks):
            raise RuntimeError(f"{part.name}: invalid root rank: {part.root}")
        kind, root = COLLECTIVE_CODES[part.name], group.ranks[part.root] if part.root >= 0 else -1
        op = self.scheduler.join(
            group, kind, part.name, root, part.size, self.line(), part.info | in_backward(), part.agree
        )
        op.payload = part
        self.open[op.rank][op.number] = op
        if self.watches:
            self._watch(op, part)
        return SimWork(self, op)

    def _take_turn(self) -> None:
        """The running rank has posted something: it is counted with the turns that ranks take."""
        if self.scheduler.on_switch is not None:
            self.scheduler.on_switch(self.scheduler.current, self.scheduler.current)

    def _watch_message(self, op: Op, tensor: torch.Tensor) -> None:
        """A message uses its tensor until it is waited for."""
        self._take_turn()
        if op.kind == SEND:
            self.watches[op.rank].hold(op, (), (tensor,))
            if self.progress is not None:
                self.progress.brought(op, hash(op.payload))
        else:
            self.watches[op.rank].hold(op, (tensor,), ())

    def _watch(self, op: Op, part: collectives.Part) -> None:
        """A part of a collective uses its tensors now, and until it is waited for."""
        self._take_turn()
        watch = self.watches[op.rank]
        for given, writes in ((part.given, False), (part.outputs, True)):
            for tensor in given:
                watch.touch(tensor, writes)
        watch.hold(op, part.outputs, part.given)
        if self.progress is not None:
            self.progress.brought(op, hash(tuple(_bytes_at(each.data_ptr(), each.nbytes) for each in part.inputs)))

    def wait(self, op: Op) -> None:
        """Wait for an operation of the running rank, if that was not done."""
        if op.done:
            return
        if op.meeting is None:
            self.wait_for_message(op)
        else:
            self._wait_for_collective(op, op.meeting)

    def wait_for_message(self, op: Op) -> None:
        line = self.line() if self.scheduler.tracing else 0
        self.open[op.rank].pop(op.number, None)
        told = bool(self.watches) and self.watches[op.rank].release(op)
        self.scheduler.wait(op, line)
        if op.kind == SEND:
            target = op.target  # it may have been resized
            if not told and (target.nbytes < op.size or _compare(op.payload, target.data_ptr(), op.size)):
                self.race("changed", op, line)
        elif op.partner is not None:
            self._deliver(op, op.partner)

    def _wait_for_collective(self, op: Op, meeting: Meeting) -> None:
        line = self.line()
        self.open[op.rank].pop(op.number, None)
        told = bool(self.watches) and self.watches[op.rank].release(op)
        if not op.payload.known:
            raise RuntimeError("Invalid scalar type")  # in gloo's words, and as gloo does without waiting for others
        self.scheduler.wait(op, line)
        with self.watches[op.rank].set_aside() if self.watches else contextlib.nullcontext():
            if not op.payload.unchanged() and not told:
                self.race("changed_in_collective", op, line)
            collectives.deliver(meeting, op.rank)
        meeting.take()

    @staticmethod
    def targets(op: Op) -> list[Any]:
        """The tensors that an operation fills."""
        return list(op.payload.outputs) if op.meeting is not None else [op.target]

    def _deliver(self, receive: Op, send: Op) -> None:
        """Put what was sent into the receive's buffer, byte for byte, as gloo does."""
        send.partner = receive.partner = None  # no cycles: the garbage collector is off
        if send.size > receive.size:
            raise RuntimeError(
                f"rank {receive.rank} receives {receive.size} bytes from rank {send.rank}, which sends {send.size}"
            )
        target = receive.target
        if target.nbytes >= send.size:  # it may have been resized
            _memmove(target.data_ptr(), send.payload, send.size)
        if self.progress is not None:
            self.progress.brought(receive, hash(send.payload))

    def settle(self) -> None:
        """Resolve the running rank's open futures."""
        mine = self.futures[self.scheduler.current.number]
        while mine:
            mine[0].settle()

    # ---- misuse

    def race(self, how: str, op: Op, line: int) -> None:
        self.tell({"event": "race", "rank": op.rank, "how": how, "line": line, "posted": op.line, "peer": op.peer})

    def used_after_destroy(self, name: str, destroyed: int) -> None:
        """A group is used that the running rank destroyed at a line: gloo goes on with it, and NCCL cannot."""
        rank, line = self.scheduler.current.number, self.line()
        self.tell({"event": "destroyed", "rank": rank, "call": name, "line": line, "destroyed": destroyed})

    def close_call(self, rank: int) -> None:
        """At the end of a rank's call: what it never waited for is a race."""
        for op in self.open[rank].values():
            if op.kind != SEND:  # a send may still be on its way
                op.partner = None
            if op.meeting is not None:
                if not (self.watches and self.watches[rank].is_of_torch(op)):
                    self.race("collective_not_waited", op, op.line)
                op.meeting.take()
            else:
                self.race("send_not_waited" if op.kind == SEND else "recv_not_waited", op, op.line)
        self.open[rank].clear()
        self.futures[rank].clear()
        if self.watches:
            self.watches[rank].clear()
