"""Judges jobs whose nodes come and go, by the logs of their steps and by their final parameters."""

from __future__ import annotations

from collections import Counter
from typing import Any

import numpy as np

from grader.exercises.train_elastic.ended import alone_of, ended, job_of, lost, require, unfinished
from grader.exercises.train_elastic.jobs import Done, Event, Job, chart
from grader.says import counted, listed, names, some
from grader.trace.gantt import Chart
from grader.worlds.ranks import RankBench

CLOSE = 1e-4


def _steps(job: Job) -> int:
    """How many steps an epoch has."""
    rows, batch = job.case.arguments[0][0].shape[0], job.case.arguments[0][3]
    return -(-int(rows) // int(batch))


def rows(bench: RankBench) -> Chart:
    """Over the last attempts every row of each epoch is used exactly once."""
    jobs = ended(bench)
    alone = jobs[0]
    count, epochs = alone.case.arguments[0][0].shape[0], alone.case.arguments[0][2]
    ends: list[int] = []  # the last step of each epoch, by the number of rows up to there
    used = 0
    for step, done in alone.done.items():
        used += len(done.rows)
        if used >= count * (len(ends) + 1):
            ends.append(step)
    for job in jobs:
        _alike(bench, job)
        _twice(bench, job)
        _logged(bench, job)
        if len(ends) < epochs:
            message = (
                f"{job}: the logs hold the rows of {len(ends)} epochs. The job has {epochs}. Train each to its end."
            )
            raise lost(bench, job, "lost_or_duplicated", message)
        begun = 0
        for number, end in enumerate(ends[:epochs]):
            last = max(job.done, default=end) if number == epochs - 1 else end
            _epoch(bench, job, alone, (begun, max(last, end)))
            begun = end + 1
    return chart(jobs[-1])


def _alike(bench: RankBench, job: Job) -> None:
    """Raise Lost where the two ranks of a start logged its steps with different attempts."""
    for first, second in (stretch for stretch in job.stretches if len(stretch) > 1):
        attempts = {
            step: (first[step][0], second[step][0])
            for step in sorted(first.keys() & second.keys())
            if len(first[step]) == len(second[step]) == 1
        }
        unlike = [step for step, (one, other) in attempts.items() if one != other]
        if len(unlike) < 2 or len({attempts[step] for step in unlike}) > 1:
            continue  # of one step alone it may be that a second start did it again
        one, other = attempts[unlike[0]]
        message = (
            f"{job}: in the same start of the workers, rank 0 logged steps {unlike[0]} to {unlike[-1]} with attempt {one}, "
            f"and rank 1 logged them with attempt {other}. Only the lines of a step's greatest attempt count, so the rows of "
            f"rank {int(one > other)} are missing. Determine the attempt on one rank, and broadcast it to the others."
        )
        raise lost(
            bench, job, "wrong_result", message, int(one > other), f"attempt {max(one, other)}", f"{min(one, other)}"
        )


def _logged(bench: RankBench, job: Job) -> None:
    """Raise Lost where a rank was killed before its line of a step, and the job went on with a checkpoint of that step."""
    for number, event in enumerate(job.events):
        step, after = event.reached + 1, job.stretches[number + 1]
        begun = min((each for logged in after for each in logged), default=step)
        before = [rank for rank, logged in enumerate(job.stretches[number]) if step in logged]
        if event.what != "loss" or begun <= step or not before or any(step in logged for logged in after):
            continue
        message = (
            f"{job}: rank {event.rank} was killed before its line of step {step}, and after that the job went on at step "
            f"{begun}. So a checkpoint of step {step} was there before that line, and the rows of rank {event.rank} in this "
            "step are in no line. Let each rank log the step, then wait for all ranks in a barrier, and only then write the "
            "checkpoint."
        )
        raise lost(bench, job, "lost_or_duplicated", message, event.rank, f"step {step} again", f"step {begun}")


def _twice(bench: RankBench, job: Job) -> None:
    """Raise Lost where a rank logged a step twice in one attempt."""
    for done in job.done.values():
        if done.twice is None:
            continue
        message = (
            f"{job}: rank {done.twice} logged step {done.step} twice with attempt {done.attempt}. Lines of one "
            "attempt count together, so that these rows count twice. Give each start of the workers a greater attempt than "
            "all starts before it, also when a node joined."
        )
        raise lost(bench, job, "lost_or_duplicated", message, done.twice)


def _epoch(bench: RankBench, job: Job, alone: Job, between: tuple[int, int]) -> None:
    """Raise Lost where the steps from one to another do not use each row once."""
    count, (first, last) = job.case.arguments[0][0].shape[0], between
    epoch = [done for step, done in job.done.items() if first <= step <= last]
    seen = Counter(row for done in epoch for row in done.rows)
    wrong = next((row for row in range(count) if seen[row] != 1), None)
    wrong = next((row for row in seen if not 0 <= row < count), None) if wrong is None else wrong
    if wrong is None:
        return
    where = [f"step {done.step} (rank {rank})" for done in epoch for rank, part in done.parts.items() if wrong in part]
    if not where and job is not alone:
        before = [done.step for step, done in alone.done.items() if first <= step <= last and wrong in done.rows]
        used = "in no line that counts" + "".join(f", and with one node alone in step {step}" for step in before[:1])
    else:
        used = f"{seen[wrong]} times, in {listed(where)}" if where else "in no line"
    message = (
        f"{job}: in the epoch of steps {first} to {last}, row {wrong} was used {used}. Every epoch must use each row once, and "
        "only the lines of a step's greatest attempt count. Derive the rows of a step from seed, epoch and step, and log "
        "them before the step's checkpoint."
    )
    raise lost(bench, job, "lost_or_duplicated", message, None, "once", f"{seen[wrong]} times")


def steps(bench: RankBench) -> Chart:
    """Every step has as many rows as G says, the same ones in every world, in parts that its ranks log."""
    jobs = ended(bench)
    count, epochs, batch = jobs[0].case.arguments[0][0].shape[0], *jobs[0].case.arguments[0][2:4]
    each = _steps(jobs[0])
    for job in jobs:
        _alike(bench, job)
        _twice(bench, job)
        _logged(bench, job)
        for step in range(epochs * each):
            wanted = min(batch, count - step % each * batch)
            done = job.done.get(step)
            if done is None:
                message = (
                    f"{job}: no rank logged step {step}. {count} rows in steps of {batch} make {each} steps an epoch "
                    f"and {epochs * each} steps in all. Do and log each of them."
                )
                raise lost(bench, job, "wrong_result", message, None, f"steps 0 to {epochs * each - 1}")
            _step(bench, job, done, wanted)
            if sorted(done.rows) != sorted(jobs[0].done[step].rows):
                message = (
                    f"{job}: step {step} used the rows {some(sorted(done.rows), 9)}. With one node alone it used the "
                    f"rows {some(sorted(jobs[0].done[step].rows), 9)}. Derive the rows of a step from seed, epoch and step, and "
                    "not from the world's size or from how often the job was started."
                )
                raise lost(bench, job, "wrong_result", message)
        more = [step for step in job.done if not 0 <= step < epochs * each]
        if more:
            message = (
                f"{job}: the logs hold step {more[0]}. {count} rows in steps of {batch} make {epochs * each} steps in "
                "all, counted from 0. Do as many steps in every world."
            )
            raise lost(bench, job, "wrong_result", message)
    _divided(bench, job_of(bench, "divided"))
    return chart(jobs[-1])


def _divided(bench: RankBench, job: Job) -> None:
    """Raise Lost where a job whose steps are all of one size did not do just these."""
    if not job.finished:
        raise unfinished(bench, job)
    count, epochs, batch = job.case.arguments[0][0].shape[0], *job.case.arguments[0][2:4]
    each = _steps(job)
    for step in range(epochs * each):
        if step not in job.done:
            message = f"{job}: no rank logged step {step}. {count} rows are {each} steps of {batch} rows."
            raise lost(bench, job, "wrong_result", message, None, f"steps 0 to {epochs * each - 1}")
        _step(bench, job, job.done[step], batch)
    more = [done for step, done in job.done.items() if not 0 <= step < epochs * each]
    if more:
        message = (
            f"{job}: the logs hold step {more[0].step}, with {counted(len(more[0].rows), 'row')}. {count} rows are "
            f"exactly {each} steps of {batch} rows, so no smaller step follows. Do ceil(rows / G) steps in each epoch."
        )
        raise lost(bench, job, "wrong_result", message, None, f"steps 0 to {epochs * each - 1}", f"step {more[0].step}")


def _step(bench: RankBench, job: Job, done: Done, wanted: int) -> None:
    """Raise Lost where a step has not `wanted` rows, or not the lines of all its ranks."""
    per_rank = listed(f"{len(part)} on rank {rank}" for rank, part in sorted(done.parts.items()))
    if len(set(done.rows)) != wanted or len(done.rows) != wanted:
        different = "" if len(set(done.rows)) == len(done.rows) else f", {len(set(done.rows))} different ones"
        message = (
            f"{job}: step {done.step} used {len(done.rows)} rows{different} ({per_rank}).{done.left_out} It has {wanted} rows, "
            "however many ranks there are. Cut the step's rows into disjoint parts, one for each rank."
        )
        raise lost(bench, job, "wrong_result", message, None, f"{wanted} rows", f"{len(done.rows)} rows")
    if set(done.worlds) != {len(done.parts)}:
        message = (
            f"{job}: step {done.step} has lines of {names(sorted(done.parts))} in attempt {done.attempt}, which say "
            f"world {listed(sorted(set(done.worlds)))}. Every rank of the world logs every step, an empty part, too."
        )
        raise lost(bench, job, "wrong_result", message)


def parameters(bench: RankBench) -> Chart:
    """The final parameters are those of the job of one node."""
    jobs = ended(bench)
    wanted = jobs[0].told["final"]
    for job in jobs[1:]:
        different = _different(job.told["final"], wanted)
        if different:
            if job.events:  # the jobs are in order: two nodes that nothing happened to came out right
                todo = (
                    "With two nodes and no change the parameters are right, so look at what a restart does. Restore the model, "
                    "the optimizer and the number of steps done on every rank."
                )
            else:
                todo = (
                    "Check that the ranks begin with equal parameters, that each step's gradient is the sum over all its "
                    "rows on all ranks, divided by their number, and that the learning rate is the same in every world."
                )
            message = f"{job}: the job {different}. The parameters must not depend on which nodes were there. {todo}"
            raise lost(bench, job, "wrong_result", message, None, "equal to one node's, to 1e-4")
    return chart(jobs[-1])


def _different(got: Any, wanted: dict[str, Any]) -> str:
    """How final parameters differ from those of one node; "" if they do not."""
    if not isinstance(got, dict):
        return f"left {got}"
    if set(got) != set(wanted):
        return f"left the parameters {', '.join(sorted(got))} instead of {', '.join(sorted(wanted))}"
    for name, tensor in wanted.items():
        mine, other = (np.asarray(each.view(), np.float64) for each in (got[name], tensor))
        if mine.shape != other.shape:
            return f"ended with a {name} of another shape than one node alone"
        if mine.size and not abs(mine - other).max() <= CLOSE * abs(other).max() + 1e-7:
            return f"ended with other values of {name} than one node alone, up to {abs(mine - other).max():.2g} apart"
    return ""


def _grown(bench: RankBench, job: Job, number: int) -> None:
    """Raise Lost where no line after an event has a greater attempt than those before it."""
    if job.after(number):
        return
    event = job.events[number]
    what = "was killed" if event.what == "loss" else "joined"
    message = (
        f"With {job.label}: when node {event.node} {what}, the logs had come to attempt {event.attempt}. No later line has a "
        "greater one, although all workers were started again. Give each start a greater attempt than all before it."
    )
    if event.broken:
        message += (
            f" The node was killed when {event.broken}. Write a file under another name first, and then os.replace."
        )
    if event.what == "join":
        message += " (torchrun does not count this start in TORCHELASTIC_RESTART_COUNT.)"
    raise lost(bench, job, "wrong_result", message, None, f"attempt {event.attempt + 1} or more")


def loss(bench: RankBench) -> Chart:
    """After a node is lost the world is 1, and the job ends by itself."""
    alone_of(bench)
    job = job_of(bench, "loss")
    require(bench, job)
    _goes_on_alone(bench, job)
    other = job_of(bench, "other")
    if not other.finished:
        raise unfinished(bench, other)
    if other.happened:  # otherwise one rank logs nothing: others judge that
        _goes_on_alone(bench, other)
    return chart(job)


def _goes_on_alone(bench: RankBench, job: Job) -> None:
    """Raise Lost where a job's lines after a loss are not those of a world of 1."""
    _grown(bench, job, 0)
    for rank, (step, _, world, attempt) in job.after(0):
        if world != 1:
            message = (
                f"After {job.events[0]}, rank {rank} logged step {step} with world {world} in attempt {attempt}. One node is "
                "left, so the world is 1. Ask the process group for its size after every start."
            )
            raise lost(bench, job, "not_available", message, rank, "world 1", f"world {world}")


def join(bench: RankBench) -> Chart:
    """After a node has joined, some later step has world 2."""
    alone_of(bench)
    job = job_of(bench, "join")
    require(bench, job)
    _grown(bench, job, 0)
    event = job.events[0]
    if not any(2 in done.worlds for step, done in job.done.items() if step > event.reached):
        reached = max(job.done)
        message = (
            f"After {event}, steps {event.reached + 1} to {reached} say world {listed(_worlds(job, event))}. Two nodes are "
            "there then, so they train in a world of 2. Ask the process group for its size after every start, and give "
            "both ranks a part of each step."
        )
        raise lost(bench, job, "not_available", message, None, "world 2 in a later step")
    return chart(job)


def _worlds(job: Job, event: Event) -> list[int]:
    return sorted({world for step, done in job.done.items() if step > event.reached for world in done.worlds})


def checkpoint(bench: RankBench) -> Chart:
    """Killed in the middle of a checkpoint it goes on, and never from the very beginning or from an epoch before."""
    alone_of(bench)
    job = job_of(bench, "both")
    require(bench, job)
    for each in [*(job_of(bench, group) for group in ("loss", "other", "join")), job]:
        if each.happened:
            for number, event in enumerate(each.events):
                if event.broken:
                    _grown(bench, each, number)
                _goes_on(bench, each, number, event)
    return chart(job)


def _goes_on(bench: RankBench, job: Job, number: int, event: Event) -> None:
    """Raise Lost where a job went back too far."""
    later = job.after(number)
    if not later:
        return  # its attempts do not grow: others judge that
    begun = later[0][1][0]
    if begun > 0 and event.reached - begun < _steps(job):
        return
    back = "from the very beginning" if begun == 0 else f"{event.reached + 1 - begun} steps back"
    message = (
        f"With {job.label}: {event}. After that the job went on at step {begun}, {back}. It must go on from the last "
        "whole checkpoint. Write one after each step, under another name first, and read it on every rank at the start."
    )
    raise lost(
        bench, job, "lost_or_duplicated", message, None, f"step {event.reached} or {event.reached + 1}", f"{begun}"
    )
