"""Judges of parameter_server's rounds, staleness, speed and deaths, by the server's history."""

from __future__ import annotations

import numpy as np

from grader.exercises.parameter_server.replayed import histories
from grader.exercises.parameter_server.servers import NEAR, Array, Given, History
from grader.worlds.cases import Case
from grader.worlds.ranks import Outcome, RankBench

LATE = 1.3  # times as long as a worker's gradients take


# ---- rounds


def sync(bench: RankBench) -> Outcome:
    for case, _, found in histories(bench, "sync"):
        _rounds(bench, case, found)
    return bench.picture("sync")


def _rounds(bench: RankBench, case: Case, found: History) -> None:
    """Raise Lost unless each round applied the mean of one gradient of each worker, of the same parameters."""
    given: Given = case.expected
    steps, n = given.plan.steps, len(given.plan.workers)
    label = f"With {case.label}:"
    for rank in given.plan.workers:
        count = len(found.of(rank))
        if count != steps:
            message = f"{label} rank {rank} computed {count} gradients. In rounds nothing is refused: it is one a step, {steps}."
            raise bench.lost(case, "wrong_result", message, rank, str(steps), str(count))
    for number, rank in enumerate(found.owner):
        step = found.index[number]
        right = np.array([1 / n if index < step else 0 for index in found.index])
        if found.rest[number] < NEAR and np.all(np.abs(found.seen[number] - right) < NEAR):
            continue
        why = _round_habit(found.seen[number], found, step, n)
        message = f"{label} in round {step + 1} rank {rank} was not given the parameters as {step} round{'s' * (step > 1)} make{'s' * (step == 1)} them. {why}"
        raise bench.lost(case, "wrong_result", message.strip(), rank)
    if found.final_rest > NEAR or np.any(np.abs(found.final - 1 / n) > NEAR):
        why = _round_habit(found.final, found, steps, n)
        raise bench.lost(case, "wrong_result", f"{label} the final parameters are wrong. {why}".strip(), 0)


def _round_habit(shares: Array, found: History, step: int, n: int) -> str:
    """What was done to the gradients of the rounds before `step`, where it can be told."""
    before = np.array(found.index) < step
    rounds = shares[before]
    if np.any(np.abs(shares[~before]) > NEAR):
        return "A gradient of this very round is in them: apply nothing before all live workers' are there."
    if not len(rounds):
        return ""
    if np.all(np.abs(rounds - rounds[0]) < NEAR) and abs(rounds[0]) > NEAR:
        if n > 1 and abs(rounds[0] - 1) < NEAR:
            return "Each gradient is in them in full: a round applies their mean, not their sum."
        return f"Each gradient counts {rounds[0]:.3g}: with {n} live worker{'s' * (n > 1)} it must count 1/{n}."
    missing = next((k for k in np.flatnonzero(before) if abs(shares[k]) < NEAR), None)
    if missing is not None:
        return (
            f"{found.name(int(missing)).capitalize()} is not in them: a round takes one gradient of each live worker."
        )
    return "A round applies the mean of one gradient of each live worker."


# ---- staleness


def stale(bench: RankBench) -> Outcome:
    """The age of every gradient that was applied."""
    for case, _, found in histories(bench, "stale"):
        given: Given = case.expected
        _fresh_enough(bench, case, found, given.plan.max_staleness)
    return bench.picture("stale")


def _fresh_enough(bench: RankBench, case: Case, found: History, allowed: int) -> None:
    ages = found.ages()
    oldest = max(ages, key=lambda number: ages[number], default=None)
    if oldest is None or ages[oldest] <= allowed:
        return
    many = sum(age > allowed for age in ages.values())
    message = (
        f"With {case.label}: {found.name(oldest)} was applied {ages[oldest]} updates after its parameters were sent, "
        f"{allowed} allowed; {many} of {len(ages)} applied gradients were too old. Compare the version that the "
        "gradient is of with the version now, just before it is applied."
    )
    raise bench.lost(case, "wrong_result", message, found.owner[oldest], f"age <= {allowed}", f"age {ages[oldest]}")


def anew(bench: RankBench) -> Outcome:
    """Each worker gives as many gradients as there are steps, refused ones not counted."""
    for case, _, found in histories(bench, "stale"):
        given: Given = case.expected
        steps = given.plan.steps
        for rank in given.plan.workers:
            numbers = found.of(rank)
            applied = [number for number in numbers if number in found.applied]
            if len(applied) == steps:
                continue
            refused = len(numbers) - len(applied)
            why = (
                "A refused gradient is no step: the worker takes the fresh parameters and computes it anew."
                if len(applied) < steps
                else "The server takes no more of a worker than its steps."
            )
            message = (
                f"With {case.label}: of rank {rank}'s {len(numbers)} gradients {len(applied)} were applied and "
                f"{refused} were not; it must give {steps}. {why}"
            )
            raise bench.lost(case, "lost_or_duplicated", message, rank, f"{steps} applied", f"{len(applied)} applied")
    return bench.picture("stale")


def bound(bench: RankBench) -> Outcome:
    """Workers of one speed, and none of their gradients is older than is allowed: none is to be refused."""
    for case, _, found in histories(bench, "bound"):
        given: Given = case.expected
        steps, allowed = given.plan.steps, given.plan.max_staleness
        for rank in given.plan.workers:
            count = len(found.of(rank))
            if count == steps:
                continue
            message = (
                f"With {case.label}, all of one speed: rank {rank} computed {count} gradients for {steps} steps. No "
                f"gradient is older than {allowed} updates there, so none is too old: refused is what is older than "
                "max_staleness, not what is as old."
            )
            raise bench.lost(case, "wrong_result", message, rank, f"{steps} gradients", f"{count} gradients")
    return bench.picture("bound")


# ---- time, death, reality


def slow(bench: RankBench) -> Outcome:
    """When each quick worker is done with its last gradient, in virtual time."""
    for case, result, found in histories(bench, "slow"):
        given: Given = case.expected
        plan = given.plan
        slowest = plan.workers[int(np.argmax(plan.seconds))]
        for rank, seconds in zip(plan.workers, plan.seconds, strict=True):
            spans = [span for span in result.trace.spans if span.rank == rank and span.what == "compute"]
            took = [span.until for span in spans if abs(span.until - span.since - seconds * 1e9) < 1e3]
            done, allowed = max(took, default=0) / 1e9, LATE * plan.steps * seconds
            if rank == slowest or done <= allowed:
                continue
            count = len(found.of(rank))
            why = (
                f"It waits for rank {slowest}, whose gradients take {max(plan.seconds):g} s each. Take the gradients in the "
                "order in which they come, with a receive from any source, and answer each at once."
                if count <= plan.steps
                else f"It computed {count}: some were refused, though none is too old."
            )
            message = (
                f"With {case.label}: rank {rank} computes its {plan.steps} gradients in {plan.steps * seconds:g} s and "
                f"has the last of them after {done:.4g} s, {allowed:g} s allowed. {why}"
            )
            raise bench.lost(case, "too_slow", message, rank, f"at most {allowed:g} s", f"{done:.4g} s")
    return bench.picture("slow")


def death(bench: RankBench) -> Outcome:
    """The live workers' gradients are all applied, and in rounds the mean is that of the live ones."""
    for case, _, found in histories(bench, "death"):
        given: Given = case.expected
        plan = given.plan
        for rank in plan.workers:
            numbers = found.of(rank)
            whole = [number for number in numbers if number in found.applied]
            wanted = plan.steps if rank in plan.live else len(numbers) - 1  # it was killed as it computed the last
            if len(whole) == wanted or (rank in plan.killed and plan.max_staleness):
                continue
            who = "alive to the end" if rank in plan.live else "killed as it computed the next"
            message = f"With {case.label}: rank {rank} was {who}, and {len(whole)} of its gradients were applied, not {wanted}."
            raise bench.lost(case, "lost_or_duplicated", message, rank, str(wanted), str(len(whole)))
        if not plan.max_staleness:
            _mean_of_the_live(bench, case, found)
    return bench.picture("death")


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
            f"counts {share:.3g} in the mean, and must count 1/{live}."
        )
        raise bench.lost(case, "wrong_result", message, rank, f"{1 / live:.3g}", f"{share:.3g}")


def real(bench: RankBench) -> Outcome:
    """That it comes to its end there, with all gradients; what they count is seen when it is simulated."""
    for case, _, found in histories(bench, "real"):
        given: Given = case.expected
        for rank in given.plan.workers:
            count, steps = sum(number in found.applied for number in found.of(rank)), given.plan.steps
            if count != steps:
                message = (
                    f"With {case.label}, on real processes: {count} gradients of rank {rank} were applied, not {steps}."
                )
                raise bench.lost(case, "lost_or_duplicated", message, rank, str(steps), str(count))
    return bench.picture("real")
