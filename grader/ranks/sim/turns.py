"""How ranks take turns in one process: each on a thread of its own, or all on one as greenlets, which is faster.

A thread bears everything. A greenlet's C stack is moved away while others run, and what C++ keeps for each thread (is
this a backward pass, are gradients on, which call is this) is everybody's. So a rank may give its turn away only from a
stack on which there are Python's own frames alone, and with nothing changed that is kept for a thread. Both are looked
at whenever one does; at the first that is not so, the run must be made once more, on threads.
"""

from __future__ import annotations

import _thread
import ctypes
import operator
import signal
import threading
from collections.abc import Callable, Sequence
from typing import Any, NoReturn, Protocol

from greenlet import getcurrent, greenlet

from grader.ranks.sim.operations import Rank
from grader.sandbox.first import TRACE_SIGNAL

STACK_BYTES = 2**20

Live = Callable[[Rank], None]  # what a rank does with all its turns
_saved = operator.attrgetter("_stack_saved")  # the bytes of its stack that were moved away


class Turns(Protocol):
    """Who runs."""

    def begin(self, ranks: Sequence[Rank], live: Live) -> None:
        """Make every rank; none runs yet."""

    def switch(self, before: Rank | None, after: Rank | None) -> None:
        """It is `after`'s turn. Returns when it is again `before`'s, who calls. None is who began."""

    def end(self, ranks: Sequence[Rank]) -> None:
        """Give every rank, or what is left of it, a last turn, in which it unwinds."""


class Threads:
    """A thread each, and a lock that it waits for."""

    def __init__(self) -> None:
        self._finished = _thread.allocate_lock()
        self._finished.acquire()

    def begin(self, ranks: Sequence[Rank], live: Live) -> None:
        def run(rank: Rank) -> None:
            rank.baton.acquire()
            live(rank)

        start_threads([(run, rank) for rank in ranks])

    def switch(self, before: Rank | None, after: Rank | None) -> None:
        (self._finished if after is None else after.baton).release()
        (self._finished if before is None else before.baton).acquire()

    def end(self, ranks: Sequence[Rank]) -> None:
        for rank in ranks:
            rank.baton.release()


class Greenlets:
    """One thread for all, on which the hub begins each and waits for the end.

    `kept()` gives what C++ keeps for a thread; `cannot(why)` is called on the thread of a rank that must not give its
    turn away, and does not return.
    """

    def __init__(self, kept: Callable[[], Any], cannot: Callable[[str], NoReturn]) -> None:
        self._kept, self._cannot = kept, cannot
        self._go, self._finished = _thread.allocate_lock(), _thread.allocate_lock()
        self._go.acquire()
        self._finished.acquire()
        self._next: greenlet | None = None
        self._left: greenlet | None = None  # who has just given its turn away, and was not looked at yet

    def begin(self, ranks: Sequence[Rank], live: Live) -> None:
        # not the thread's own greenlet: to that a switch takes another way, and so much stack
        start_threads([(lambda: greenlet(self._hub_of).switch(ranks, live),)])
        self._finished.acquire()

    def _hub_of(self, ranks: Sequence[Rank], live: Live) -> None:
        self._hub = hub = getcurrent()

        def run(rank: Rank) -> None:
            self._leave(None, hub)
            live(rank)

        self._greenlets = [greenlet(run) for _ in ranks]  # all begun from here: their stacks lie at the same place
        for rank, one in zip(ranks, self._greenlets, strict=True):
            one.switch(rank)
        self._plain = self._depths()
        repr([0])  # that, too, is noted there
        self._locals = _locals_of_thread()
        self._unchanged = self._kept(), len(self._locals)
        while True:
            self._finished.release()
            self._go.acquire()
            if self._next is None:
                break
            self._leave(None, self._next)
        for one in self._greenlets:
            one.switch()

    def _leave(self, who: greenlet | None, to: greenlet) -> None:
        self._left = who
        to.switch()
        left, self._left = self._left, None
        if left is not None and _saved(left) not in self._plain and self._next is not None:
            self._cannot("it communicates in what C++ calls")

    def _depths(self) -> frozenset[int]:
        """The bytes of C stack of ranks with nothing but Python's frames on it.

        A call of Python by Python takes none. f(*args) takes some: every rank's function is called so, and those of
        torch.distributed that have a decorator. C++ that calls Python takes more than any of them.
        """

        def plain() -> None:
            self._leave(None, self._hub)

        def probe() -> None:
            plain()
            plain(*())

        one = greenlet(probe)
        sizes = []
        while True:
            one.switch()
            if one.dead:
                break
            sizes.append(_saved(one))
        bottom, called = sizes
        return frozenset(bottom + times * (called - bottom) for times in range(3))

    def switch(self, before: Rank | None, after: Rank | None) -> None:
        if before is None:
            assert after is not None
            self._next = self._greenlets[after.number]
            self._go.release()
            self._finished.acquire()
            return
        if (self._kept(), len(self._locals)) != self._unchanged and self._next is not None:
            self._cannot("it changes what is kept for a thread")
        mine = self._greenlets[before.number]
        if getcurrent() is not mine:
            self._cannot("it has greenlets of its own")
        self._leave(mine, self._hub if after is None else self._greenlets[after.number])

    def end(self, ranks: Sequence[Rank]) -> None:
        self._next = None
        self._go.release()


def _locals_of_thread() -> dict[str, Any]:
    """What the values of threading.local() that this thread has are in."""
    get = ctypes.pythonapi.PyThreadState_GetDict
    get.restype = ctypes.c_void_p  # borrowed: as an object it would be released once too often
    found = ctypes.cast(get(), ctypes.py_object).value
    assert isinstance(found, dict)
    return found


def start_threads(calls: Sequence[tuple[Any, ...]]) -> None:
    """Start a thread for each function and its arguments; signals for a trace are the main thread's."""
    before = threading.stack_size(STACK_BYTES)
    mask = signal.pthread_sigmask(signal.SIG_BLOCK, {TRACE_SIGNAL})
    for function, *arguments in calls:
        _thread.start_new_thread(function, tuple(arguments))
    signal.pthread_sigmask(signal.SIG_SETMASK, mask)
    threading.stack_size(before)
