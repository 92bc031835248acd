"""One worker of a pool: grades the jobs it is given, one after the other, with engines of its own.

    python -m grader.classroom.batch.worker

One job a line on stdin (`Job.to_json`), one answer a line on stdout: {"verdict": what `Verdict.report_json` gives} or
{"problem": sentence}. Ends at end of file, in the middle of a grading too: nobody is there any more to be told.
"""

from __future__ import annotations

import json
import os
import sys
import threading
import traceback
from queue import SimpleQueue

from grader import grading, registry
from grader.classroom.batch.pool import Job
from grader.ranks.engines import Engines
from grader.submission import BadRequest, Submission
from grader.verdict import Verdict


class NotGraded(Exception):  # noqa: N818 - reads as what happened
    """There is no verdict, and why. It is not the learner's doing: another try may give one."""


def verdict_of(job: Job, engines: Engines) -> Verdict:
    """Grade one job. Raises NotGraded where a check ended in an error of ours, whatever the reason."""
    try:
        verdict = grading.grade(registry.find(job.exercise), Submission(job.source, job.file), engines, job.seed)
    except BadRequest as error:
        raise NotGraded(str(error)) from None
    except Exception as error:  # a check that fails has not judged anything
        place = traceback.extract_tb(error.__traceback__)[-1]
        where = f"{os.path.basename(place.filename)}, line {place.lineno}"
        raise NotGraded(f"the grader failed ({type(error).__name__}: {error}; {where})") from error
    broken = next((check for check in verdict.checks if check.status == "error"), None)
    if broken is not None:
        message = broken.diagnosis.message if broken.diagnosis else ""
        raise NotGraded(message.removeprefix("Not graded: ").rstrip(".") or f"{broken.name} could not be judged")
    return verdict


def main() -> None:
    """Serve jobs until end of file."""
    answers = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)  # whoever prints to stdout must not be taken for an answer
    jobs: SimpleQueue[str] = SimpleQueue()
    with Engines() as engines:  # begins to import torch, in a process of its own, before the first job is here
        threading.Thread(target=_read, args=(jobs,), daemon=True).start()
        while True:
            job = Job.from_json(jobs.get())
            try:
                answer = {"verdict": json.loads(verdict_of(job, engines).report_json())}
            except NotGraded as error:
                answer = {"problem": str(error)}
            print(json.dumps(answer), file=answers, flush=True)


def _read(jobs: SimpleQueue[str]) -> None:
    for line in sys.stdin:
        jobs.put(line)
    os._exit(0)  # what runs below us sees our sockets close, and ends


if __name__ == "__main__":
    main()
