"""What a run of parameter_server left, the server's history; and the judges of the loss and of lost updates.

Gradients are random and fewer than the parameters have elements, so they are linearly independent: of any parameters
that were made by adding gradients to the first ones, least squares tells how much of each gradient is in them. That is
the server's history, whatever messages it was made of.
"""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from grader import says, tally
from grader.exercises.common import checks, plain
from grader.lost import Lost
from grader.ranks.program import CallResult, Strided
from grader.trace.events import RECV_ANY, Trace
from grader.worlds.cases import Case
from grader.worlds.ranks import RankBench

Array = np.ndarray[Any, Any]
NEAR = 0.02  # of a gradient times lr: float32 and the least squares lose a thousandth of that


@dataclass(frozen=True)
class Plan:
    """One training: who works, how long a gradient takes each of them, and who is killed in the middle of one."""

    workers: tuple[int, ...]
    seconds: tuple[float, ...]
    steps: int
    lr: float
    max_staleness: int
    killed: tuple[int, ...] = ()

    def told(self) -> dict[str, Any]:
        """What the harness is told."""
        seconds = {str(rank): seconds for rank, seconds in zip(self.workers, self.seconds, strict=True)}
        told = {name: getattr(self, name) for name in ("steps", "lr", "max_staleness")}
        return {"workers": list(self.workers), "seconds": seconds, **told}

    @property
    def live(self) -> tuple[int, ...]:
        """The workers that are never killed."""
        return tuple(rank for rank in self.workers if rank not in self.killed)


@dataclass(frozen=True)
class Given:
    """What the ranks start with; by worker, the curvatures of its quadratic, its centre and its mini-batches'."""

    plan: Plan
    start: Array
    scale: Mapping[int, Array]
    centre: Mapping[int, Array]
    targets: Mapping[int, Array]

    def gap(self, x: Array) -> float:
        """How far the workers' mean loss at `x` is above the least that there is."""
        scale = np.mean([self.scale[rank] for rank in self.plan.workers], 0)
        best = np.mean([self.scale[rank] * self.centre[rank] for rank in self.plan.workers], 0) / scale
        return float(0.5 * (scale * (x - best) ** 2).sum())


@dataclass(frozen=True)
class History:
    """All gradients that were computed, each the `index`-th of rank `owner`, and how much of each was applied.

    `seen[i, j]` is how much of gradient j is in the parameters that gradient i is of, `final[j]` how much is in what
    the server has in the end. `rest` and `final_rest` are what no gradient explains, in units of a usual gradient.
    """

    owner: tuple[int, ...]
    index: tuple[int, ...]
    seen: Array
    final: Array
    rest: Array
    final_rest: float

    def of(self, rank: int) -> list[int]:
        """The gradients of one worker, in order."""
        return [number for number, owner in enumerate(self.owner) if owner == rank]

    def name(self, number: int) -> str:
        """A gradient, for people: "rank 2's gradient 5", counted from 1."""
        return f"rank {self.owner[number]}'s gradient {self.index[number] + 1}"

    @property
    def strangers(self) -> list[int]:
        """The gradients that are of parameters which the server never had: its versions grow by whole gradients."""
        within = np.abs(self.seen) > NEAR
        whole = (np.abs(self.seen - within) < NEAR).all(1) & (self.rest < NEAR)
        order = [*sorted(np.flatnonzero(whole).tolist(), key=lambda number: within[number].sum())]
        grown = all(not (within[one] & ~within[other]).any() for one, other in itertools.pairwise(order))
        return [number for number in range(len(self.owner)) if not whole[number]] or ([] if grown else order[-1:])

    @property
    def applied(self) -> list[int]:
        """The gradients that the server has in the end."""
        return [number for number in range(len(self.owner)) if abs(self.final[number]) > NEAR]

    def update(self, plan: Plan) -> str:
        """What an update is, to be said where gradients count too much or too little."""
        n, within = len(plan.workers), np.abs(np.vstack([self.seen, self.final])) > NEAR
        rounds = plan.max_staleness > 0 and n > 1 and not (within.sum(1) % n).any()
        if rounds and np.all(np.abs(self.final[within[-1]] - 1 / n) < NEAR):
            return (
                f"The server applied the mean of each round, although max_staleness is {plan.max_staleness}. Work in "
                "rounds only if max_staleness is 0. Otherwise make one update for each gradient."
            )
        return "An update is parameters -= lr * gradient."

    def ages(self) -> dict[int, int]:
        """The age at which each gradient was applied: how many were applied between its parameters and itself.

        Where the parameters that were seen leave the order open it is that in which the oldest is youngest: by due
        date, the parameters it is of (Jackson 1955).
        """
        within = np.abs(self.seen) > NEAR
        versions = [frozenset(np.flatnonzero(row).tolist()) for row in within]
        found: dict[int, int] = {}
        for version in sorted({*versions, frozenset(self.applied)}, key=len):
            for number in sorted(version - found.keys(), key=lambda number: len(versions[number])):
                found[number] = len(found) - len(versions[number])
        return found


def history(given: Given, noted: Mapping[int, Sequence[Array]], final: Array) -> History | None:
    """The history of the parameters that each worker `noted` and of the `final` ones; None of too many gradients."""
    owner = [rank for rank, rows in noted.items() for _ in rows]
    index = [number for rows in noted.values() for number, _ in enumerate(rows)]
    of = np.array([row for rows in noted.values() for row in rows]).reshape(len(owner), len(given.start))
    if 4 * len(owner) > 3 * len(given.start):
        return None
    each = zip(owner, index, of, strict=True)
    parts = [given.scale[rank] * (x - given.targets[rank][number]) for rank, number, x in each]
    gradients = np.array(parts).reshape(of.shape)
    moved = (given.start - np.vstack([of, final])) / given.plan.lr
    shares = np.linalg.lstsq(gradients.T, moved.T, rcond=None)[0].T if owner else np.zeros((1, 0))
    rest = np.abs(moved - shares @ gradients).max(1) / max(1.0, float(np.abs(gradients).max(initial=0.0)))
    return History(tuple(owner), tuple(index), shares[:-1], shares[-1], rest[:-1], float(rest[-1]))


BOUND = 0.05  # of the first gap to the optimum: right ones end below 0.02

START, NOTED, COUNT = 1, 4, 5  # places among the harness's arguments


# ---- what the ranks leave


def _calls(bench: RankBench, group: str) -> Iterator[tuple[Case, CallResult, Array, dict[int, list[Array]]]]:
    """The finished calls of `group`: the server's parameters, and by worker those that its gradients are of."""
    try:
        for case, result in bench.calls(group):
            given: Given = case.expected
            final = result.arguments[0][START]
            if not isinstance(final, Strided) or final.shape != given.start.shape or final.storage.dtype != np.float32:
                message = (
                    f"With {case.label}: `parameters` became {plain.in_words(final)}. Update the given tensor in place."
                )
                raise bench.lost(case, "wrong_result", message, 0)
            values = final.view().astype(np.float64)
            if not np.isfinite(values).all():
                message = (
                    f"With {case.label}: the server's parameters are not finite. {_not_finite(given.plan, result)}"
                )
                raise bench.lost(case, "wrong_result", message, 0)
            yield case, result, values, {rank: _noted(given, result, rank) for rank in given.plan.workers}
    except Lost as lost:
        asked = "As you asked, "
        if lost.picture is None:
            raise
        if stranger := _stranger(lost, lost.picture.case.expected.plan, lost.picture.run.trace):
            told, _, _ = lost.diagnosis.message.partition(" Every send needs a receive.")
            message = f"With {lost.picture.case.label}: {told} {stranger}"
            raise Lost(replace(lost.diagnosis, message=message), lost.picture) from None
        if not lost.diagnosis.message.startswith(asked):
            raise
        told = f"With {lost.picture.case.label}: {lost.diagnosis.message.removeprefix(asked)}"
        trace, line = lost.picture.run.trace, lost.diagnosis.line
        advice = _of_a_death(lost.picture.case.expected.plan, told, trace)
        if "Rank 0 waits" in told:  # the others wait because of it
            line = trace.operations(0)[-1].wait_line or line
        raise Lost(replace(lost.diagnosis, message=f"{told} {advice}", line=line), lost.picture) from None


def _stranger(lost: Lost, plan: Plan, trace: Trace) -> str:
    """What to say where the server waits for a rank that is no worker; "" where it waits for none."""
    peer = next((op.peer for op in trace.operations(0)[-1:] if not op.collective), 0)
    if lost.diagnosis.kind != "left_early" or lost.diagnosis.rank != peer or peer in (0, *plan.workers):
        return ""
    return (
        f"Rank {peer} is not a worker: `workers` is {list(plan.workers)} here. Send to these ranks only, and receive from "
        "these only."
    )


def _of_a_death(plan: Plan, told: str, trace: Trace) -> str:
    """What to do about a run that ended badly because a worker was killed, of which so much was `told` already."""
    received = sum(op.kind == RECV_ANY and op.failed for op in trace.operations(0))
    whole = " A round is complete when each live worker's gradient is there." if not plan.max_staleness else ""
    if "Rank 0 raised" not in told and "Rank 0 waits" not in told:
        return (
            f"Rank 0 returned too soon. Serve until each live worker has contributed its {plan.steps} gradients. A dead "
            "worker's accepted gradients still count."
        )
    if "PeerGone" in told or not received:
        return f"A receive from any source then raises RuntimeError once. Catch it, drop that worker and go on.{whole}"
    if received == len(plan.workers):
        rounds = " Make no update for a round without gradients." if not plan.max_staleness else ""
        return f"Rank 0 had received the RuntimeError of every worker by then, so no worker was left and serve() must return.{rounds}"
    if "Rank 0 raised" in told:
        return "That was after the RuntimeError that names the dead worker. Drop exactly that worker, and go on."
    waiting = [rank for rank in plan.live if any(not op.done for op in trace.operations(rank)[-1:])]
    received_of = Counter(send.rank for send, recv in trace.messages if recv.rank == 0 and recv.done)
    receives = any(op.receives for op in trace.operations(0)[-1:])
    if waiting and receives and all(received_of[rank] == trace.messages_sent(rank) for rank in waiting):
        return (
            f"Rank 0 has received every message of {says.names(waiting)}, and now waits for another one, which no worker will "
            f"send. Answer {says.names(waiting)} before you receive again.{whole}"
        )
    return (
        "Rank 0 received the RuntimeError that names the dead worker, and then waited again. Wait only for workers that "
        f"are alive and still have to contribute gradients.{whole}"
    )


def _not_finite(plan: Plan, result: CallResult) -> str:
    """What to do about parameters that are not finite: they may be of a round that nobody was left for."""
    seen = [rows.view() for rank in plan.workers if isinstance(rows := result.arguments[rank][NOTED], Strided)]
    if plan.live or plan.max_staleness or not all(np.isfinite(rows).all() for rows in seen):
        return "An update is parameters -= lr * gradient."
    return (
        "The last parameters that the workers received were finite. The server then made another update, although no worker "
        "had sent another gradient before it died. A round without gradients has no mean, so make no update for it."
    )


def _noted(given: Given, result: CallResult, rank: int) -> list[Array]:
    """What the harness noted on one rank; nothing, where that has become something else."""
    rows, count = result.arguments[rank][NOTED], result.arguments[rank][COUNT]
    if not isinstance(rows, Strided) or rows.shape != given.targets[rank].shape or rows.storage.dtype != np.float32:
        return []
    many = plain.number(count) or 0
    return [np.nan_to_num(row.astype(np.float64)) for row in rows.view()[: max(int(many), 0)]]


def _too_many(plan: Plan, noted: Mapping[int, Sequence[Array]]) -> str:
    """That workers computed too many gradients: whether on the same parameters again, or on fresh ones."""
    most = max(noted, key=lambda rank: len(noted[rank]))
    text = f"rank {most} computed {len(noted[most])} gradients for {says.counted(plan.steps, 'step')}, far too many. "
    for rank, rows in noted.items():
        for number, (one, then) in enumerate(itertools.pairwise(rows), 2):
            if np.array_equal(one, then):
                return (
                    f"{text}Rank {rank} computed its gradient {number} on the same parameters as the one before. After a "
                    "refusal, compute the gradient on fresh parameters."
                )
    count = sum(map(len, noted.values()))
    refuse = "Refuse a gradient only if its age exceeds max_staleness"
    if count <= plan.max_staleness:
        refuse = f"All workers together computed only {count}, so none is older than max_staleness. Refuse none"
    return f"{text}{refuse}, and let a worker return after {says.counted(plan.steps, 'accepted gradient')}."


def histories(bench: RankBench, group: str) -> Iterator[tuple[Case, CallResult, History]]:
    """The finished calls of `group`, with the server's history. Raises Lost where there is none to be found."""
    for case, result, final, noted in _calls(bench, group):
        found = history(case.expected, noted, final)
        if found is None:
            message = f"With {case.label}: {_too_many(case.expected.plan, noted)}"
            raise bench.lost(case, "wrong_result", message)
        if found.owner and not found.applied and found.final_rest < NEAR:
            message = f"With {case.label}: the parameters never changed. Update the tensor that serve() gets, in place."
            raise bench.lost(case, "wrong_result", message, 0)
        yield case, result, found


# ---- values


@checks.judged(_calls, "loss")
def loss(bench: RankBench, case: Case, _: CallResult, final: Array, __: dict[int, list[Array]]) -> None:
    """The loss in the end, as a share of what it was."""
    given: Given = case.expected
    first, last = given.gap(given.start), given.gap(final)
    tally.note("loss that is left", 100 * last / first, 100 * BOUND, "%", where=case.label)
    if last <= BOUND * first:
        return
    why = ""
    if np.array_equal(final, given.start):
        why = "The parameters never changed. Update the tensor that serve() gets, in place."
    elif last > first:
        why = "The loss grew. An update is parameters -= lr * gradient."
    message = (
        f"With {case.label}: at the end the loss is {100 * last / first:.3g} % as far above its minimum as at the "
        f"start. At most {100 * BOUND:.0f} % is allowed. {why}"
    )
    got = f"{100 * last / first:.3g} %"
    raise bench.lost(case, "not_converged", message.strip(), None, f"at most {100 * BOUND:.0f} %", got)


@checks.judged(histories, "updates")
def updates(bench: RankBench, case: Case, result: CallResult, found: History) -> None:
    """Each worker's steps are in the final parameters, each once; and no request is left open."""
    _once(bench, case, found)
    checks.undisturbed(bench, case, result)


def _once(bench: RankBench, case: Case, found: History) -> None:
    """Raise Lost unless every applied gradient was applied exactly once, and as many of each worker as it has steps."""
    given: Given = case.expected
    plan, shares = given.plan, found.final
    whole = np.abs(shares - 1) < NEAR
    kept = [sum(whole[number] for number in found.of(rank)) for rank in plan.workers]
    if found.final_rest < NEAR and all(count == plan.steps for count in kept):
        odd = next((number for number in range(len(shares)) if not whole[number] and abs(shares[number]) > NEAR), None)
        if odd is None and not found.strangers:
            return
    raise _not_once(bench, case, found)


def _not_once(bench: RankBench, case: Case, found: History) -> Lost:
    given: Given = case.expected
    steps, shares = given.plan.steps, found.final
    label = f"With {case.label}:"
    used = np.abs(shares) > NEAR
    even = float(np.median(shares[used])) if used.any() else 0.0
    if found.final_rest < NEAR and used.all() and np.all(np.abs(shares - even) < NEAR) and abs(even - 1) > NEAR:
        against = " The sign is wrong." if even < 0 else ""
        message = f"{label} every gradient counts {even:.3g} times in the final parameters instead of once.{against} {found.update(given.plan)}"
        return bench.lost(case, "wrong_result", message, 0, "1", f"{even:.3g}")
    lost = next((n for n in range(len(shares)) if not used[n] and len(found.of(found.owner[n])) == steps), None)
    if lost is not None:
        gone = int((~used).sum())
        seen = [found.owner[n] for n in range(len(shares)) if abs(found.seen[n, lost]) > NEAR]
        why = (
            f"It was in parameters that rank {seen[0]} computed on, and was lost later. Update the parameters as they "
            "are now, not as they were sent."
            if seen
            else "No worker ever computed on parameters that contain it. Apply every gradient."
        )
        others = f", and so {'is' if gone == 2 else 'are'} {gone - 1} more" if gone > 1 else ""
        message = f"{label} {found.name(lost)} is missing from the final parameters{others}. {why}"
        got = f"{len(shares) - gone} of {len(shares)}"
        return bench.lost(case, "lost_or_duplicated", message, found.owner[lost], f"{len(shares)} gradients", got)
    twice = next((n for n in range(len(shares)) if abs(shares[n] - round(shares[n])) < NEAR and shares[n] > 1.5), None)
    if twice is not None:
        message = f"{label} {found.name(twice)} was applied {shares[twice]:.0f} times. Apply each gradient once."
        return bench.lost(case, "lost_or_duplicated", message, found.owner[twice], "1", f"{shares[twice]:.0f}")
    odd = next((n for n in range(len(shares)) if used[n] and abs(shares[n] - 1) > NEAR), None)
    if odd is not None and found.final_rest < NEAR:
        message = f"{label} {found.name(odd)} counts {shares[odd]:.3g} times in the final parameters instead of once. An update is parameters -= lr * gradient."
        return bench.lost(case, "wrong_result", message, found.owner[odd], "1", f"{shares[odd]:.3g}")
    for rank in given.plan.workers:
        count = sum(used[number] for number in found.of(rank))
        if count != steps:
            message = f"{label} {count} gradients of rank {rank} were applied, but steps is {steps}. Apply exactly that many of each worker."
            return bench.lost(case, "lost_or_duplicated", message, rank, str(steps), str(count))
    if found.final_rest < NEAR:
        message = f"{label} {found.name(found.strangers[0])} was computed on parameters that the server never had. Pass the server's parameters to gradient_fn unchanged."
        return bench.lost(case, "wrong_result", message, found.owner[found.strangers[0]])
    message = f"{label} the final parameters are not the initial ones minus lr times the workers' gradients. An update is parameters -= lr * gradient."
    return bench.lost(case, "wrong_result", message, 0)
