"""The jobs of one grading, from which checks judge."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable

from grader.jobs.cluster import Cluster, Done, Job
from grader.jobs.judging import Judging
from grader.lost import Lost
from grader.sandbox.warm import Warm
from grader.submission import Submission
from grader.trace.gantt import Chart
from grader.verdict import Diagnosis

MOST_ENDLESS = 3  # jobs that never came to their end, after which none is tried any more
MOST_SECONDS = 240.0  # real ones, of all jobs together, after which none is begun any more


class JobBench(Judging):
    """Runs jobs with a submission's function `call`."""

    def __init__(self, warm: Warm, submission: Submission, call: str, seed: int) -> None:
        super().__init__(submission, seed)
        self._warm, self._call = warm, call
        self._endless: list[Diagnosis] = []
        self._seconds = 0.0

    def run(self, job: Job) -> Done:
        """Run one job. Raises Lost."""
        if len(self._endless) >= MOST_ENDLESS:
            raise Lost(self._endless[-1])
        if self._seconds > MOST_SECONDS:
            text = f"All jobs together took more than {MOST_SECONDS:g} seconds, so no more are started."
            raise Lost(self.found("timeout", text))
        began = time.monotonic()
        try:
            return Cluster(self._warm, self._submission, self._call, job).run()
        except Lost as lost:
            if lost.diagnosis.kind == "timeout":
                self._endless.append(lost.diagnosis)
            raise
        finally:
            self._seconds += time.monotonic() - began

    def hold(self, jobs: Iterable[Job], judge: Callable[[Done], Diagnosis | None]) -> Chart:
        """Run every job and judge it. Raises Lost for the first that is wrong; returns the first one's picture."""
        first: Chart | None = None
        for job in jobs:
            done = self.run(job)
            wrong = judge(done)
            if wrong is not None:
                raise Lost(wrong, done.chart)
            first = first or done.chart
        assert first is not None, "a check without a job"
        return first
