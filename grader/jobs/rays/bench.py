"""The Ray of one grading, from which checks judge."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any, TypeVar

from grader.jobs.judging import Judging
from grader.jobs.rays.lease import Driver, Rays, Said
from grader.lost import Lost
from grader.submission import Submission

B = TypeVar("B")
C = TypeVar("C")
MOST_ENDLESS = 3  # calls that never came to their end, after which none is made any more


class RayBench(Judging):
    """Makes calls of a submission's functions `names`, by way of the harness, against a Ray. Close it.

    All checks share one driver, and get another where it broke.
    """

    def __init__(
        self, rays: Rays, submission: Submission, names: Sequence[str], harness: str, seed: int,
        imported: Sequence[str] = (),
    ) -> None:  # fmt: skip
        super().__init__(submission, seed)
        self._rays, self._names, self._harness = rays, tuple(names), harness
        self._imported = tuple(imported)
        self.kept: dict[str, Any] = {}  # what several checks judge, for them to keep
        self._driver: Driver | None = None
        self._hopeless: Lost | None = None
        self._endless: list[Lost] = []

    @property
    def driver(self) -> Driver:
        """The process with the submission. Raises Lost where it cannot be loaded, Unable without a Ray."""
        if self._hopeless is not None:
            raise self._hopeless
        if len(self._endless) >= MOST_ENDLESS:
            last = self._endless[-1].diagnosis
            why = f"Not judged, because {MOST_ENDLESS} calls before this one did not end in time."
            raise Lost(replace(last, message=f"{why} {last.message}"))
        if self._driver is not None and self._driver.broken:
            self.close()
        if self._driver is None:
            try:
                self._driver = Driver(self._rays, self._submission, self._names, self._harness, self._imported)
            except Lost as lost:
                self._hopeless = lost
                raise
        return self._driver

    def call(
        self, function: str, by: str, *arguments: Any, seconds: float,
        said: Callable[[Said], None] | None = None, idle: Callable[[], None] | None = None,
    ) -> Any:  # fmt: skip
        """Have the harness's `by` called with that function of the submission. Raises Lost."""
        driver = self.driver
        if function in driver.missing:
            text = f"{self._submission.name} does not define {function}."
            raise driver.lost("missing_function", text, expected=function)
        try:
            return driver.call(function, by, *arguments, seconds=seconds, said=said, idle=idle)
        except Lost as lost:
            if lost.diagnosis.kind == "timeout":
                self._endless.append(lost)
            raise

    def output(self) -> str:
        """What the submission printed, for people."""
        return self._driver.printed() if self._driver is not None else ""

    def close(self) -> None:
        """End the submission's processes."""
        if self._driver is not None:
            self._driver.close()
            self._driver = None


def once_more(judge: Callable[[B], C]) -> Callable[[B], C]:
    """A check that is made again, on a new Ray, where the first one broke down: who breaks that too did it."""

    def judged(bench: B) -> C:
        try:
            return judge(bench)
        except Lost as lost:
            if not lost.broke:
                raise
            return judge(bench)

    return judged
