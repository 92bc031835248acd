"""One thread's event loop: descriptors, and callbacks that are due at a time."""

from __future__ import annotations

import heapq
import itertools
import selectors
import time
from collections.abc import Callable
from dataclasses import dataclass, field

READ, WRITE = selectors.EVENT_READ, selectors.EVENT_WRITE
LONGEST = 60.0  # seconds that one wait takes at most
AT_ONCE = 1000  # due callbacks between two looks at the descriptors: neither starves the other


@dataclass(order=True)
class Timer:
    """A callback that will be called once, unless `cancel` comes first."""

    due: float
    order: int
    callback: Callable[[], None] | None = field(compare=False)

    def cancel(self) -> None:
        self.callback = None


class Loop:
    """Time is in seconds since the loop was made."""

    def __init__(self) -> None:
        self._began = time.monotonic()
        self._timers: list[Timer] = []
        self._order = itertools.count()
        self._selector = selectors.DefaultSelector()

    def now(self) -> float:
        return time.monotonic() - self._began

    def at(self, due: float, callback: Callable[[], None]) -> Timer:
        """Call `callback` at the time `due`; what is due together is called in the order of these calls."""
        timer = Timer(due, next(self._order), callback)
        heapq.heappush(self._timers, timer)
        return timer

    def after(self, seconds: float, callback: Callable[[], None]) -> Timer:
        return self.at(self.now() + seconds, callback)

    def watch(self, fd: int, event: int, callback: Callable[[], object]) -> None:
        """Call `callback` whenever `fd` is ready; each descriptor is watched for one kind of event."""
        self._selector.register(fd, event, callback)

    def unwatch(self, fd: int) -> None:
        """Watch `fd` no longer; nothing happens if it was not watched."""
        if fd in self._selector.get_map():
            self._selector.unregister(fd)

    def until(self, done: Callable[[], object], deadline: float) -> bool:
        """Run until `done()` is true or the time is `deadline`; whether it was done."""
        while not done():
            now = self.now()
            if now >= deadline:
                return False
            self._run_due(now)
            if done():
                break
            wake = min(deadline, now + LONGEST, self._timers[0].due if self._timers else deadline)
            for key, _ in self._selector.select(max(0.0, wake - self.now())):
                if key.fd in self._selector.get_map():  # an earlier callback may have closed it
                    key.data()
        return True

    def close(self) -> None:
        self._timers.clear()
        self._selector.close()

    def _run_due(self, now: float) -> None:
        for _ in range(AT_ONCE):
            if not self._timers or self._timers[0].due > now:
                return
            callback = heapq.heappop(self._timers).callback
            if callback is not None:
                callback()
