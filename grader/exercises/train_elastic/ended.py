"""Which jobs can be judged, and why one did not come to its end.

A job that did not costs the check that is about what befell its nodes, and no other: the others judge those that did.
"""

from __future__ import annotations

from dataclasses import replace

from grader.exercises.common import torchrun
from grader.exercises.train_elastic.jobs import NO_FINAL, Job, chart
from grader.lost import Lost
from grader.verdict import Kind
from grader.worlds.ranks import RankBench

OF_A_CUT_FILE = ("EOFError", "PytorchStreamReader", "UnpicklingError", "JSONDecodeError")  # what loading it raises
DISTURBED = ("loss", "other", "join", "both")
EXAMPLE = '{"step": 0, "rows": [17, 3], "world": 1, "attempt": 1}'


def lost(
    bench: RankBench, job: Job, kind: Kind, message: str, rank: int | None = None, expected: str = "", got: str = ""
) -> Lost:
    found = bench.lost(job.case, kind, message, rank, expected, got)
    found.picture = chart(job) if any(map(any, job.logs)) else found.picture
    return found


def job_of(bench: RankBench, group: str) -> Job:
    """The one job of a group. Raises Lost where it never came to an end that can be told."""
    case, result = next(iter(bench.calls(group)))
    return Job(bench.outcome(case), result.returned[0])


def alone_of(bench: RankBench) -> Job:
    """The job of one node, with which all others are compared: it has to have ended, with a log and parameters."""
    job = job_of(bench, "alone")
    if job.told["ending"] != "finished":
        raise unfinished(bench, job)
    lines = job.logs[0]
    if not lines:
        message = (
            "One node trained alone and wrote no line to DIR/steps-0.jsonl. The grader reads from it which rows each step "
            "used. Append a line after each step, on every rank."
        )
        raise lost(bench, job, "wrong_result", message, 0, EXAMPLE)
    if [] in lines:
        message = (
            f"Line {lines.index([]) + 1} of steps-0.jsonl is not a JSON object with the integers step, world and attempt "
            "and the list rows. Write one such object in each line."
        )
        raise lost(bench, job, "wrong_result", message, 0, EXAMPLE)
    if isinstance(job.told["final"], str):
        message = (
            f"One node trained alone and left {job.told['final']} in DIR. The job's result is the model's state_dict there. "
            "Save it on rank 0 when the last step is done."
        )
        raise lost(bench, job, "wrong_result", message, None, "a state_dict")
    return job


def unfinished(bench: RankBench, job: Job) -> Lost:
    """Why a job did not come to its end."""
    end = "The job must come to its end with the nodes that are there."
    if job.told["ending"] == "stands still":
        message = (
            f"{job}: the job stood still. No worker did anything with a file any more, for longer than the test waits. "
            f"{job.reached} {end} "
            "Look for a collective that a rank never joins, and for a wait for another node."
        )
        return lost(bench, job, "timeout", message, None, "the job ends by itself")
    raised = torchrun.raised(job.told, bench.program)
    if raised:
        advice = "Have the script go on from whatever a kill leaves in DIR, in a world of any size."
        if job.broken:
            advice = (
                f"After the last kill, {job.broken}, and no later start could go on from that. Write a file under another name, "
                "call fsync, and then os.replace."
            )
        elif job.cut and any(error in raised for error in OF_A_CUT_FILE):
            advice = (
                f"After the kill, {job.cut} was not whole, and loading such a file raises this error. Write a file under another "
                "name, call fsync, and then os.replace."
            )
        message = f"{job}: the job failed, although torchrun restarts it up to 4 times. {raised} {end} {advice}"
        return torchrun.marked(lost(bench, job, "crash", message, None, "the job ends by itself"), job.told)
    if job.told["ending"] == "finished" and job.told["end"]:
        message = (
            f"{job}: the other node went on alone, and before {job.told['end']['call']} a new node joined, so that torchrun "
            f"started all workers again. The job ended and left {NO_FINAL}. Have rank 0 write final.pt in every start that comes "
            "to the end, also if the checkpoint shows that no step is left to do."
        )
        return lost(bench, job, "not_durable", message, 0, "final.pt", NO_FINAL)
    how = "failed" if job.told["ending"] != "finished" else f"ended and left {NO_FINAL}"
    message = (
        f"{job}: the job {how}, and no worker raised an exception of its own. {end} Do every step, and leave the script "
        "with exit status 0 only after the last one."
    )
    return lost(bench, job, "not_available", message, None, "the job ends after its last step")


def require(bench: RankBench, job: Job) -> None:
    """Raise Lost unless a job ended, and all that was to happen to its nodes did."""
    if not job.finished:
        raise unfinished(bench, job)
    if job.happened:
        return
    what = job.planned[len(job.events)]
    loss, join = job.case.arguments[0][5:7]
    if what == "join":
        message = f"With {job.label}: the test lets the other node join before the line of step {join}, and no later worker wrote this line by itself."
    elif loss[0] in ("line", "other"):
        message = f"With {job.label}: the test kills a node before its line of step {loss[1]} or later, and no rank wrote such a line by itself."
    else:
        message = (
            f"With {job.label}: the test kills a node while it writes the checkpoint of step {loss[1]} or of a later step. No rank wrote a "
            "file in DIR after it had logged such a step."
        )
    message += (
        " After each step, append its line on every rank and flush it at once. Then write the step's checkpoint in DIR."
    )
    raise lost(bench, job, "wrong_result", message)


def ended(bench: RankBench) -> list[Job]:
    """The jobs that can be judged by their logs, the undisturbed ones first. At least one of the disturbed is needed.
    Where a start damaged a file and was cut off, what that does to later logs costs the check of checkpoints alone."""
    alone, two = alone_of(bench), job_of(bench, "two")
    if not two.finished:
        raise unfinished(bench, two)
    disturbed = [job_of(bench, group) for group in DISTURBED]
    whole = [job for job in disturbed if job.happened and not job.broken]
    if not whole:
        try:
            require(bench, disturbed[0])
        except Lost as why_not:
            why = f"Not judged, because no job whose nodes changed came to its end. {why_not.diagnosis.message}"
            raise Lost(replace(why_not.diagnosis, message=why), why_not.picture) from None
    return [alone, two, *whole]
