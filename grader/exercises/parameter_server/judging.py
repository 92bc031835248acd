"""Judges of parameter_server's rounds, staleness, speed and deaths, by the server's history."""

from __future__ import annotations

import numpy as np

from grader import tally
from grader.exercises.common import checks
from grader.exercises.parameter_server.replayed import NEAR, Array, Given, History, histories
from grader.ranks.program import CallResult
from grader.trace.events import SEND
from grader.worlds.cases import Case
from grader.worlds.ranks import RankBench

LATE = 1.3  # times as long as a worker's gradients take


# ---- rounds


@checks.judged(histories, "sync")
def sync(bench: RankBench, case: Case, _: CallResult, found: History) -> None:
    """Raise Lost unless each round applied the mean of one gradient of each worker, of the same parameters."""
    given: Given = case.expected
    steps, n = given.plan.steps, len(given.plan.workers)
    label = f"With {case.label}:"
    for rank in given.plan.workers:
        count = len(found.of(rank))
        if count != steps:
            why = _one_more(found, rank, steps) or (
                "Take one gradient of each live worker in every round, and refuse none."
            )
            message = f"{label} rank {rank} computed {count} gradients instead of {steps}. {why}"
            raise bench.lost(case, "wrong_result", message, rank, str(steps), str(count))
    for number, rank in enumerate(found.owner):
        step = found.index[number]
        right = np.array([1 / n if index < step else 0 for index in found.index])
        if found.rest[number] < NEAR and np.all(np.abs(found.seen[number] - right) < NEAR):
            continue
        why = _round_habit(found.seen[number], found, step, n)
        due = f"the parameters after round {step}" if step else "the initial parameters"
        message = f"{label} in round {step + 1} rank {rank} did not compute on {due}. {why}"
        raise bench.lost(case, "wrong_result", message.strip(), rank)
    if found.final_rest > NEAR or np.any(np.abs(found.final - 1 / n) > NEAR):
        why = _round_habit(found.final, found, steps, n)
        raise bench.lost(case, "wrong_result", f"{label} the final parameters are wrong. {why}".strip(), 0)


def _one_more(found: History, rank: int, steps: int) -> str:
    """What to say of a worker all of whose first gradients were applied, as many as there are steps, and that computed
    more; empty for any other."""
    numbers = found.of(rank)
    if len(numbers) <= steps or not set(numbers[:steps]) <= {*found.applied}:
        return ""
    return (
        f"Its first {steps} were applied, so none was refused. A worker must return after {steps} accepted gradients."
    )


def _round_habit(shares: Array, found: History, step: int, n: int) -> str:
    """What was done to the gradients of the rounds before `step`, where it can be told."""
    before = np.array(found.index) < step
    rounds = shares[before]
    if not len(rounds):
        return ""
    if np.all(np.abs(rounds - rounds[0]) < NEAR) and abs(rounds[0]) > NEAR:
        if n > 1 and abs(rounds[0] - 1) < NEAR:
            return "Each gradient was applied in full. Apply the mean of a round's gradients, not their sum."
        counts = f"Each gradient counts {rounds[0]:.3g} instead of {'1' if n == 1 else f'1/{n}'}."
        if any(abs(rounds[0] - 1 / other) < NEAR for other in range(1, n + 3)):
            return f"{counts} Divide by the number of live workers."
        sign = " The sign is wrong." if rounds[0] < 0 else ""
        return f"{counts}{sign} An update is parameters -= lr * the mean of the round's gradients."
    missing = next((k for k in np.flatnonzero(before) if abs(shares[k]) < NEAR), None)
    if missing is not None:
        return f"{found.name(int(missing)).capitalize()} is missing. Apply one gradient of each live worker in a round."
    return "Apply the mean of one gradient of each live worker in a round."


# ---- staleness


@checks.judged(histories, "stale")
def stale(bench: RankBench, case: Case, result: CallResult, found: History) -> None:
    """The age of every gradient that was applied."""
    given: Given = case.expected
    allowed, ages = given.plan.max_staleness, found.ages()
    oldest = max(ages, key=lambda number: ages[number], default=None)
    if oldest is None or ages[oldest] <= allowed:
        return
    many = sum(age > allowed for age in ages.values())
    rank, share = found.owner[oldest], float(found.final[oldest])
    if abs(share) > NEAR and abs(share - 1) > NEAR:  # what is one update is not known, and an age counts updates
        message = (
            f"Not judged, because the updates are wrong. With {case.label}: {found.name(oldest)} counts {share:.3g} times "
            f"in the final parameters instead of once. {found.update(given.plan)}"
        )
        raise bench.lost(case, "wrong_result", message, rank, "1", f"{share:.3g}")
    sent = [op for op in result.trace.operations(rank) if op.kind == SEND and op.size >= 4 * given.start.size]
    why = "Just before you apply a gradient, compare the current version with the version that the gradient was computed on."
    if len(sent) > len(found.of(rank)):
        why += (
            f" Rank {rank} sent {len(sent)} messages as large as a gradient, but computed only {len(found.of(rank))} "
            "gradients. After a refusal, a worker must compute a new gradient and not send the old one again."
        )
    own = [number for number in found.of(rank) if number < oldest and number in found.applied]
    if lacking := [number for number in own if abs(found.seen[oldest][number]) < NEAR]:
        why = (
            f"Those parameters lack {found.name(lacking[-1])}, although it was applied. After the update for a gradient, "
            "send its worker the new parameters, and let it compute its next gradient on them."
        )
    message = (
        f"With {case.label}: {found.name(oldest)} was applied {ages[oldest]} updates after its parameters were sent. "
        f"max_staleness is {allowed}. {many} of {len(ages)} applied gradients {'was' if many == 1 else 'were'} too old. {why}"
    )
    raise bench.lost(case, "wrong_result", message, rank, f"age <= {allowed}", f"age {ages[oldest]}")


@checks.judged(histories, "stale")
def anew(bench: RankBench, case: Case, _: CallResult, found: History) -> None:
    """Each worker gives as many gradients as there are steps, refused ones not counted."""
    given: Given = case.expected
    steps = given.plan.steps
    for rank in given.plan.workers:
        numbers = found.of(rank)
        applied = [number for number in numbers if number in found.applied]
        if len(applied) == steps:
            continue
        refused = len(numbers) - len(applied)
        why = (
            "Apply each gradient or refuse it. A refused gradient is no step: the worker must compute a new one on fresh "
            "parameters."
            if len(applied) < steps
            else f"Take only {steps} gradients of each worker."
        )
        message = (
            f"With {case.label}: rank {rank} computed {len(numbers)} gradients. {len(applied)} of them were applied "
            f"and {refused} {'was' if refused == 1 else 'were'} not, but {steps} must be applied. {why}"
        )
        raise bench.lost(case, "lost_or_duplicated", message, rank, f"{steps} applied", f"{len(applied)} applied")


@checks.judged(histories, "bound")
def bound(bench: RankBench, case: Case, _: CallResult, found: History) -> None:
    """Workers of one speed, and none of their gradients is older than is allowed: none is to be refused."""
    given: Given = case.expected
    steps, allowed = given.plan.steps, given.plan.max_staleness
    for rank in given.plan.workers:
        count = len(found.of(rank))
        if count == steps:
            continue
        why = (
            f"All workers are equally fast, so no gradient is older than {allowed} and none may be refused. Refuse "
            "a gradient only if its age exceeds max_staleness. An equal age is allowed."
            if count > steps
            else f"Take {steps} gradients of each worker."
        )
        why = _one_more(found, rank, steps) or why
        message = f"With {case.label}: rank {rank} computed {count} gradients for {steps} steps. {why}"
        raise bench.lost(case, "wrong_result", message, rank, f"{steps} gradients", f"{count} gradients")


# ---- time, death, reality


@checks.judged(histories, "slow")
def slow(bench: RankBench, case: Case, result: CallResult, found: History) -> None:
    """When each quick worker is done with its last gradient, in virtual time."""
    given: Given = case.expected
    plan = given.plan
    slowest = plan.workers[int(np.argmax(plan.seconds))]
    for rank, seconds in zip(plan.workers, plan.seconds, strict=True):
        spans = [span for span in result.trace.spans if span.rank == rank and span.what == "compute"]
        took = [span.until for span in spans if abs(span.until - span.since - seconds * 1e9) < 1e3]
        done, allowed = max(took, default=0) / 1e9, LATE * plan.steps * seconds
        if rank != slowest:
            tally.note("last gradient of a quick worker", done, allowed, "s", where=case.label,
                       reference=plan.steps * max(plan.seconds), of="waiting for the slowest")  # fmt: skip
        if rank == slowest or done <= allowed:
            continue
        count = len(found.of(rank))
        why = (
            f"It waited the rest of the time. A gradient of rank {slowest}, the slowest, takes {max(plan.seconds):g} "
            "s. Receive from any source, and answer each gradient at once."
            if count <= plan.steps
            else f"It computed {count} gradients. None is too old here, so refuse none."
        )
        message = (
            f"With {case.label}: rank {rank} needs {plan.steps * seconds:g} s to compute {plan.steps} gradients, "
            f"but finished the last one after {done:.4g} s. At most {allowed:g} s are allowed. {why}"
        )
        raise bench.lost(case, "too_slow", message, rank, f"at most {allowed:g} s", f"{done:.4g} s")


@checks.judged(histories, "death")
def death(bench: RankBench, case: Case, _: CallResult, found: History) -> None:
    """The live workers' gradients are all applied, and in rounds the mean is that of the live ones."""
    given: Given = case.expected
    plan = given.plan
    for rank in plan.workers:
        numbers = found.of(rank)
        whole = [number for number in numbers if number in found.applied]
        wanted = plan.steps if rank in plan.live else len(numbers) - 1  # it was killed as it computed the last
        if len(whole) == wanted or (rank in plan.killed and plan.max_staleness):
            continue
        lived = rank in plan.live
        who = "lived to the end" if lived else f"was killed while it computed gradient {len(numbers)}"
        todo = "Go on until each live worker has given its steps." if lived else "Keep what it gave before."
        if len(whole) > wanted:
            todo = f"Take only {plan.steps} gradients of each worker, also where another has died."
        message = f"With {case.label}: rank {rank} {who}. {len(whole)} of its gradients were applied instead of {wanted}. {todo}"
        raise bench.lost(case, "lost_or_duplicated", message, rank, str(wanted), str(len(whole)))
    if not plan.max_staleness:
        _mean_of_the_live(bench, case, found)


def _mean_of_the_live(bench: RankBench, case: Case, found: History) -> None:
    """Raise Lost where rounds took the mean over all workers before a death, and not over the live ones after it.
    What they took before it is another check's."""
    given: Given = case.expected
    plan = given.plan
    dead = {rank: len(found.of(rank)) - 1 for rank in plan.killed}  # the round in which it was killed
    for number, rank in enumerate(found.owner):
        live = sum(found.index[number] < dead.get(other, plan.steps) for other in plan.workers)
        share = float(found.final[number])
        first = [float(found.final[k]) for k, index in enumerate(found.index) if index == 0]
        if (
            rank in dead
            or np.any(np.abs(np.array(first) - 1 / len(plan.workers)) > NEAR)
            or abs(share - 1 / live) < NEAR
        ):
            continue
        message = (
            f"With {case.label}: in round {found.index[number] + 1}, with {live} live workers, {found.name(number)} "
            f"counts {share:.3g} in the mean instead of 1/{live}. Divide by the number of workers that are alive."
        )
        raise bench.lost(case, "wrong_result", message, rank, f"{1 / live:.3g}", f"{share:.3g}")


@checks.judged(histories, "real")
def real(bench: RankBench, case: Case, _: CallResult, found: History) -> None:
    """That it comes to its end there, with all gradients; what they count is seen when it is simulated."""
    given: Given = case.expected
    for rank in given.plan.workers:
        count, steps = sum(number in found.applied for number in found.of(rank)), given.plan.steps
        if count != steps:
            message = (
                f"With {case.label}, on real processes: {count} gradients of rank {rank} were applied instead of "
                f"{steps}. Apply every gradient exactly once."
            )
            raise bench.lost(case, "lost_or_duplicated", message, rank, str(steps), str(count))
