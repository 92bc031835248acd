"""The clients: a thread and a connection each, which run one statement when they are told to."""

from __future__ import annotations

import queue
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from grader.nodes.databases.driver import Database, Lost, Refused, Session
from grader.submission import BadRequest

AGAIN_SECONDS, GAP_SECONDS = 5.0, 0.1  # for how long, and how often, a lost connection is made again


@dataclass(frozen=True)
class Done:
    """How a step ended: with a value, or with what was raised."""

    value: Any = None
    error: BaseException | None = None


class Client(threading.Thread):
    """Runs steps, one at a time; `ended` is called in its thread after each."""

    def __init__(self, database: Database, number: int, ended: Callable[[], None]) -> None:
        super().__init__(name=f"client {number}", daemon=True)
        self._database, self._ended = database, ended
        self._steps: queue.SimpleQueue[Callable[[Session], Any] | None] = queue.SimpleQueue()
        self._over = threading.Event()
        self.number = self.process = number
        self.session: Session | None = database.connect()
        self.done: Done | None = None
        self.start()

    @property
    def pid(self) -> int | None:
        session = self.session
        return None if session is None else session.pid

    def ask(self, step: Callable[[Session], Any]) -> None:
        """Have a step run; `done` says how it ended, and is None until then."""
        self.done = None
        self._steps.put(step)

    def stop(self) -> None:
        """End soon, whatever it does: `finish` waits for that."""
        self._over.set()
        session = self.session
        if session is not None:
            session.cancel()
        self._steps.put(None)

    def finish(self) -> None:
        while self.is_alive():  # what was canceled may only just have been about to begin
            self.join(0.1)
            session = self.session
            if self.is_alive() and session is not None:
                session.cancel()
        if self.session is not None:
            self.session.close()

    def run(self) -> None:
        while (step := self._steps.get()) is not None and not self._over.is_set():
            try:
                self.done = Done(step(self._connected()))
            except Refused as error:
                self.done = Done(error=self._rolled_back(error))
            except Lost as error:
                self._drop()
                self.done = Done(error=error)
            except BaseException as error:  # the run's own thread raises it
                self.done = Done(error=error)
            self._ended()

    def _connected(self) -> Session:
        """The session, made again where it was lost. Raises BadRequest if the database stays away."""
        until = time.monotonic() + AGAIN_SECONDS
        while self.session is None:
            try:
                self.session = self._database.connect()
            except BadRequest:
                if time.monotonic() > until or self._over.wait(GAP_SECONDS):
                    raise
        return self.session

    def _rolled_back(self, refused: Refused) -> BaseException:
        assert self.session is not None
        try:
            self.session.rollback()
        except Lost:  # with the transaction, so all the same nothing happened
            self._drop()
        except BaseException as error:
            return error
        return refused

    def _drop(self) -> None:
        session, self.session = self.session, None
        if session is not None:
            session.close()
