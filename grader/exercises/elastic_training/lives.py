"""Judges a job that restarts, by the logs of its steps at each kill and at the end, and by its final parameters."""

from __future__ import annotations

from collections import Counter
from typing import Any

import numpy as np

from grader import says
from grader.exercises.common import torchrun
from grader.worlds.cases import Case
from grader.worlds.ranks import Outcome, RankBench

ROWS = 48
MOST_AGAIN = 2  # steps that may be done again after a kill: the one that was cut off, and one for good measure
Told = dict[str, Any]


def _jobs(bench: RankBench) -> dict[str, tuple[Case, Told]]:
    """What was told of each job, by its label; undisturbed first. Raises Lost where one did not come to its end."""
    jobs: dict[str, tuple[Case, Told]] = {}
    for case, result in bench.calls("job"):
        jobs[case.label] = case, result.returned[0]
    case, told = jobs["undisturbed"]
    if not any(told["logs"]):
        message = "The job wrote no log. After each step, append a line to DIR/steps-RANK.jsonl on every rank."
        raise bench.lost(case, "wrong_result", message, None, '{"step": 0, "rows": [17, 3, ...]}')
    for rank, lines in enumerate(told["logs"]):
        if [] in lines:
            message = f"Line {lines.index([]) + 1} of steps-{rank}.jsonl is not a JSON object with step and rows."
            raise bench.lost(case, "wrong_result", message, rank, '{"step": 0, "rows": [17, 3, ...]}')
    if isinstance(told["final"], str):
        message = f"The undisturbed job left {told['final']} in DIR. Save a state_dict there at the end."
        raise bench.lost(case, "wrong_result", message, None, "a state_dict")
    return jobs


def _finished(bench: RankBench, case: Case, told: Told) -> None:
    """Raise Lost where a job that was disturbed did not come to its end, or was never disturbed."""
    if told["ending"] != "finished":
        what = torchrun.raised(told, bench.program) or "No worker raised."
        kills = " and ".join(f"rank {kill['rank']} before {kill['call']}" for kill in told["kills"])
        message = (
            f"After SIGKILL of {kills} the job failed, although torchrun restarts it once more often than it was killed. "
            f"{what} Have the script go on from whatever a kill leaves in DIR."
        )
        raise torchrun.marked(
            bench.lost(case, "not_durable", message, None, "the job ends as if nothing had happened"), told
        )


def _killed(bench: RankBench, case: Case, told: Told) -> None:
    planned = case.arguments[0][-1]
    if len(told["kills"]) < len(planned):
        what, rank, number = planned[len(told["kills"])]
        if what in ("final", "between"):
            return  # it has another name until it is whole; a checkpoint is one file
        before = told["kills"][-1]["logs"][rank] if told["kills"] else []
        lines, writes = len(told["logs"][rank]) - len(before), told["writes"][rank]
        if lines > writes:
            message = (
                f"The log of rank {rank} got {says.counted(lines, 'line')} by {says.counted(writes, 'write')}. So lines wait in "
                "a buffer, and a kill loses them. Flush the log after each line, or open and close it in each step."
            )
            raise bench.lost(
                case, "wrong_result", message, rank, "a write for each step", says.counted(writes, "write")
            )
        where = f"its line {number} in the log" if what == "line" else f"file operation {number} after its third step"
        wanted = (
            "Log each step on every rank." if what == "line" else f"Write a checkpoint on rank {rank} in each step."
        )
        message = f"Rank {rank} never reached the point where the test kills it, {where}. {wanted}"
        raise bench.lost(case, "wrong_result", message, rank, "a line in the log, and then a checkpoint, at each step")


def _reached(lines: list[Any]) -> int:
    """The greatest step in a log, or one before the first."""
    return max((line[0] for line in lines if line), default=-1)


def _last(lines: list[Any]) -> dict[int, list[int]]:
    """What counts of a log: of each step its last line."""
    return dict(line for line in lines if line)


def epochs(bench: RankBench) -> Outcome:
    """All ranks together train on every row once an epoch."""
    case, told = _jobs(bench)["undisturbed"]
    count = case.arguments[0][2]
    seen = Counter(row for lines in told["logs"] for rows in _last(lines).values() for row in rows)
    steps = [sorted(_last(lines)) for lines in told["logs"]]
    if steps[0] != steps[1]:
        step = min({*steps[0]} ^ {*steps[1]})
        one = int(step in steps[1])
        message = f"Rank {one} logged step {step}, and rank {1 - one} did not. Make and log every step on both ranks."
        raise bench.lost(case, "lost_or_duplicated", message)
    for row in range(ROWS):
        if seen[row] == count:
            continue
        total = sum(seen.values())
        if total >= 2 * count * ROWS:
            message = f"In {count} epochs both ranks together trained on {total} rows instead of {count * ROWS}. Give each row to only one rank in an epoch."
        else:
            message = f"In {count} epochs row {row} was trained on {seen[row]} times instead of {count}. Train on each row once an epoch, on one rank."
        raise bench.lost(case, "lost_or_duplicated", message, None, f"{count} times", f"{seen[row]} times")
    strange = [row for row in seen if not 0 <= row < ROWS]
    if strange:
        raise bench.lost(case, "wrong_result", f"The logs name row {strange[0]}. There are only rows 0 to {ROWS - 1}.")
    return bench.outcome(case)


def _disturbed(bench: RankBench) -> list[tuple[Case, Told]]:
    """The jobs in which ranks were killed and that came to their end; the first has to."""
    jobs = _jobs(bench)
    case, told = jobs["between steps"]
    _finished(bench, case, told)
    both = [jobs[label] for label in ("between steps", "in a checkpoint")]
    ended = [(case, told) for case, told in both if told["ending"] == "finished"]
    for case, told in ended:
        _killed(bench, case, told)
    return ended


def resumes(bench: RankBench) -> Outcome:
    """After each kill every rank goes on at the step that was cut off, or next to it."""
    for case, told in _disturbed(bench):
        for number, kill in enumerate(told["kills"]):
            later = [*told["kills"][number + 1 :], told][0]["logs"]
            for rank, (before, after) in enumerate(zip(kill["logs"], later, strict=True)):
                _goes_on(bench, case, kill, rank, before, after)
    return bench.picture("job")


def _goes_on(bench: RankBench, case: Case, kill: Told, rank: int, before: list[Any], after: list[Any]) -> None:
    """Raise Lost where a rank, by its log at a kill and its log later, began again much too early."""
    new = after[len(before) :] if after[: len(before)] == before else after
    reached = _reached(before)
    if not new or not new[0] or reached + 1 - new[0][0] <= MOST_AGAIN:
        return
    again = reached + 1 - new[0][0]
    message = (
        f"Rank {rank} had logged step {reached} when rank {kill['rank']} was killed (before {kill['call']}). After the "
        f"restart rank {rank} began at step {new[0][0]} and trained {again} steps again. Write a checkpoint after each "
        "step, and go on from the last one that is complete."
    )
    expected = f"step {reached + 1}, or the one before, from the last checkpoint"
    raise bench.lost(case, "lost_or_duplicated", message, rank, expected, f"step {new[0][0]}")


def rows(bench: RankBench) -> Outcome:
    """What counts of the logs is what the undisturbed job logged."""
    undisturbed = _jobs(bench)["undisturbed"][1]["logs"]
    for case, told in _disturbed(bench):
        # who is killed before its line, when the other's checkpoint of that step may be there already, never writes it
        cut = {(kill["rank"], _reached(kill["logs"][kill["rank"]]) + 1): kill["writes"] for kill in told["kills"]}
        excused = {place for place, writes in cut.items() if not writes}
        for rank, (lines, others) in enumerate(zip(told["logs"], undisturbed, strict=True)):
            got, wanted = _last(lines), _last(others)
            for step in sorted(set(got) | set(wanted)):
                if got.get(step) == wanted.get(step) or (step not in got and (rank, step) in excused):
                    continue
                if step not in got and (rank, step) in cut:
                    message = (
                        f"Rank {rank} was killed before it logged step {step}, and after the restart that step was not done "
                        "again. Log a step before you write its checkpoint, and go on with the next step."
                    )
                    raise bench.lost(case, "lost_or_duplicated", message, rank)
                todo = "After a restart, go on in the same order of the rows, at the same place in the epoch."
                if _last(told["kills"][0]["logs"][rank]).get(step) not in (None, wanted.get(step)):
                    todo = "That was before the first kill, so seed the order of the rows."
                did, instead = _did(got.get(step)), _did(wanted.get(step))
                message = f"At step {step} rank {rank} {did}. In the undisturbed job rank {rank} {instead}. {todo}"
                raise bench.lost(case, "lost_or_duplicated", message, rank)
    return bench.picture("job")


def _did(numbers: list[int] | None) -> str:
    if numbers is None:
        return "did nothing"
    return f"trained on rows {', '.join(map(str, numbers[:4]))}{' and others' if len(numbers) > 4 else ''}"


def _different(told: Told, undisturbed: Told) -> str:
    """How the final parameters differ from the undisturbed job's; "" if they do not."""
    got, wanted = told["final"], undisturbed["final"]
    if isinstance(got, str):
        return f"left {got}"
    if set(got) != set(wanted):
        return f"left the parameters {', '.join(sorted(got))} instead of {', '.join(sorted(wanted))}"
    for name, tensor in wanted.items():
        mine, other = np.asarray(got[name].view(), np.float64), np.asarray(tensor.view(), np.float64)
        if mine.shape != other.shape or not np.allclose(mine, other, rtol=1e-6, atol=1e-7):
            far = f"{abs(mine - other).max():.2g} apart" if mine.shape == other.shape else "of another shape"
            return f"ended with another {name} than the undisturbed one, {far}"
    return ""


def _leaves_final(bench: RankBench, case: Case, told: Told) -> None:
    """Raise Lost where a job left no final parameters because it was killed while it wrote them."""
    kill = told["kills"][-1]
    if kill["what"] != "final" or not isinstance(told["final"], str):
        return
    message = (
        f"Rank {kill['rank']} was killed before {kill['call']}, when it had logged step {_reached(kill['logs'][kill['rank']])}. "
        f"torchrun started all workers again, and the job ended and left {told['final']}. Write final.pt again in every start "
        "that comes to the end, even if no step is left to do or a file of that name is already there."
    )
    raise bench.lost(case, "not_durable", message, None, "final.pt", str(told["final"]))


def _between(told: Told) -> str:
    """What a kill between two files of a checkpoint can do, if there was one; jobs without one are judged before."""
    kill = told["kills"][-1]
    if kill["what"] != "between" or isinstance(told["final"], str):
        return ""
    return (
        f"The last kill came after rank {kill['rank']} had put {kill['renamed']} in place and before it changed {kill['name']}. "
        "If both files belong to the checkpoint, the restart found one of the new step and one of the step before. Write all "
        "state of a step to one file. Or give each step's files their own names, and at the end replace one small file that "
        "names the step."
    )


def parameters(bench: RankBench) -> Outcome:
    """Kills leave no trace in the parameters."""
    undisturbed = _jobs(bench)["undisturbed"][1]
    for case, told in _disturbed(bench):
        different = _different(told, undisturbed)
        if different:
            kills = ", then ".join(f"rank {kill['rank']} before {kill['call']}" for kill in told["kills"])
            _leaves_final(bench, case, told)
            todo = "Save and restore on every rank all that training depends on: parameters, optimizer and random generators."
            message = f"After SIGKILL of {kills}, the job {different}. {_between(told) or todo}"
            raise bench.lost(case, "wrong_result", message, None, "equal to the undisturbed job's, to 1e-6")
    return bench.picture("job")


def checkpoint(bench: RankBench) -> Outcome:
    """A rank that is killed in the middle of its checkpoint leaves one from which all go on."""
    case, told = _jobs(bench)["in a checkpoint"]
    _finished(bench, case, told)
    _killed(bench, case, told)
    return bench.outcome(case)
