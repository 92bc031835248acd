"""The Spark runs of one grading, from which checks judge."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from grader.jobs.judging import Judging
from grader.jobs.sparks import lives
from grader.jobs.sparks.engine import Failed, Missing, Returned, Spark
from grader.jobs.sparks.shown import chart
from grader.lost import Lost
from grader.submission import Submission
from grader.trace.gantt import Chart
from grader.verdict import Diagnosis

HOPELESS = ("syntax_error", "missing_function")
MOST_ENDLESS = 2  # runs that never ended, or ended Spark, after which none is begun any more


class SparkBench(Judging):
    """Runs a submission's functions on a warm Spark. A run with the same label is made once."""

    def __init__(self, spark: Spark, submission: Submission, seed: int) -> None:
        super().__init__(submission, seed)
        self._spark = spark
        self._done: dict[str, Returned | Lost] = {}
        self._ours: dict[tuple[str, str, str], Returned] = {}
        self._endless: list[Lost] = []
        self._hopeless: dict[str, Lost] = {}  # by function, "" for all of them
        self._lived: dict[str, lives.Lived | Failed | Missing] = {}  # by function

    def line_of(self, called: str) -> int | None:
        """The submission's line in what Spark says of a call: "collect at submission.py:16" -> 16."""
        where = called.rpartition(" at ")[2]
        line = where.removeprefix(f"{self._submission.name}:")
        return int(line) if line != where and line.isdecimal() else None

    def run(
        self, label: str, call: str, *arguments: Any,
        conf: Mapping[str, str] | None = None, before: Sequence[Any] | None = None, after: Sequence[Any] | None = None,
    ) -> Returned:  # fmt: skip
        """Call the submission's function; `label` says what with, and `conf` has settings of the session that it is
        lent. With `before` it is called with those arguments first, in the same driver, and with `after` once more with
        those, before anybody looks at what it returned. Raises Lost where it does not return."""
        if label not in self._done:
            self._done[label] = self._tried(label, call, arguments, conf, before, after)
        done = self._done[label]
        if isinstance(done, Lost):
            raise done
        return done

    def _tried(
        self, label: str, call: str, arguments: tuple[Any, ...], conf: Mapping[str, str] | None,
        before: Sequence[Any] | None, after: Sequence[Any] | None,
    ) -> Returned | Lost:  # fmt: skip
        hopeless = self._hopeless.get("") or self._hopeless.get(call)
        if hopeless or len(self._endless) >= MOST_ENDLESS:
            return hopeless or self._endless[-1]
        try:
            return self._spark.run(self._submission, call, arguments, label, conf, before, after)
        except Lost as lost:
            kind = lost.diagnosis.kind
            if kind in HOPELESS:
                self._hopeless["" if kind == "syntax_error" else call] = lost
            elif lost.broke:
                self._endless.append(lost)
            return lost

    def live(self, call: str, of: Sequence[lives.Life]) -> lives.Lived:
        """The lives of the streaming query that the submission's function starts: lived once. Raises as live()."""
        if call not in self._lived:
            try:
                self._lived[call] = lives.live(self._spark.warm, self._submission, call, of)
            except (Failed, Missing) as error:
                self._lived[call] = error
        lived = self._lived[call]
        if isinstance(lived, Exception):
            raise lived
        return lived

    def ours(self, source: str, call: str, *arguments: Any) -> Returned:
        """A run of a program of our own, with which to compare: made once. Raises Lost."""
        asked = source, call, repr(arguments)
        if asked not in self._ours:
            self._ours[asked] = self._spark.run(Submission(source, "ours.py"), call, arguments)
        return self._ours[asked]

    def close(self) -> None:
        """The grading is over."""
        self._spark.done()

    def hold(self, label: str, returned: Returned, *judges: Callable[[Returned], Diagnosis | None]) -> Chart:
        """Ask the judges one after another. Raises Lost with the run's picture; returns the picture."""
        picture = chart(returned.measured, label, "records" if returned.plan else "bytes")
        for judge in judges:
            wrong = judge(returned)
            if wrong is not None:
                raise Lost(wrong, picture)
        return picture
