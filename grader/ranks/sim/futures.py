"""Futures of simulated collectives, and the places where C++ (DDP's reducer) waits for one without asking Python.

Private to torch: the version is pinned and tests/ranks/test_seam.py holds the seam.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from typing import Any, Protocol

import torch
import torch.distributed as dist
from torch.distributed.algorithms.join import Join

from grader.ranks.sim.scheduler import Scheduler

_wait, _delayed, _notify = torch._C.Future.wait, dist.Reducer._delay_all_reduce, Join.notify_join_context


class Context(Protocol):
    """What futures need of the ranks' context."""

    scheduler: Scheduler
    futures: list[list[SimFuture]]
    kept: dict[int, Any]
    calls_back: set[int]

    def settle(self) -> None: ...


def install(context: Context) -> None:
    """From now on what C++ waits for is resolved before."""

    def wait(future: torch._C.Future) -> Any:
        """One of C++'s own that stands for open ones: outside of a backward pass nobody else resolves those."""
        if not isinstance(future, SimFuture):
            context.settle()
        return _wait(future)

    def delayed(reducer: dist.Reducer) -> None:
        """What DDP(static_graph=True) has the engine call after its first backward pass."""
        rank = context.scheduler.current.number
        context.calls_back.add(rank)
        try:
            _delayed(reducer)
        finally:
            context.calls_back.discard(rank)

    def notify(joinable: Any) -> Any:
        """Tell the other ranks that this one has not joined. The reducer may wait for it, and C++ alone does not keep
        the object whose wait() is ours."""
        work = context.kept[context.scheduler.current.number] = _notify(joinable)
        return work

    torch._C.Future.wait, dist.Reducer._delay_all_reduce = wait, delayed
    Join.notify_join_context = notify


class SimFuture(torch.futures.Future):  # type: ignore[misc]
    """A future that is resolved by the rank that asks for it, in virtual time.

    C++ (DDP's reducer) waits for futures without asking Python: at the end of a backward pass every open one is
    resolved first, in order, by a callback of the autograd engine. In such a callback it is too late for that: there a
    future is resolved at once.
    """

    def __init__(
        self, context: Context, resolve: Callable[[SimFuture], None], can_be_resolved: Callable[[], bool]
    ) -> None:
        super().__init__()
        self._context, self._resolve, self._settled = context, resolve, False
        self._can_be_resolved = can_be_resolved
        self._callbacks: list[Callable[[Any], None]] = []
        open_futures = context.futures[context.scheduler.current.number]
        open_futures.append(self)
        if context.scheduler.current.number in context.calls_back:
            self.settle()
        elif len(open_futures) == 1:
            with contextlib.suppress(RuntimeError):  # not in a backward pass
                torch.autograd.Variable._execution_engine.queue_callback(context.settle)

    def settle(self) -> None:
        """Wait for what it stands for."""
        if self._settled:
            return
        self._settled = True
        with contextlib.suppress(ValueError):
            self._context.futures[self._context.scheduler.current.number].remove(self)
        self._resolve(self)
        for callback in self._callbacks:
            callback(self)

    def done(self) -> bool:
        if not self._settled and self._can_be_resolved():
            self.settle()
        return self._settled

    def wait(self) -> Any:
        self.settle()
        return super().wait()

    def value(self) -> Any:
        self.settle()
        return super().value()

    def then(self, callback: Callable[[Any], Any]) -> SimFuture:
        def resolve(future: SimFuture) -> None:
            self.settle()
            try:
                future.set_result(callback(self))
            except Exception as error:
                future.set_exception(error)

        return SimFuture(self._context, resolve, self.done)

    def add_done_callback(self, callback: Callable[[Any], None]) -> None:
        if self._settled:
            callback(self)
        else:
            self._callbacks.append(callback)
