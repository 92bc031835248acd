"""What a run of parameter_server left: the server's history; and the judges of the loss and of lost updates."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import numpy as np

from grader import tally
from grader.exercises.common import checks, plain
from grader.exercises.parameter_server.servers import NEAR, Array, Given, History, history
from grader.lost import Lost
from grader.ranks.program import CallResult, Strided
from grader.worlds.cases import Case
from grader.worlds.ranks import Outcome, RankBench

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
                message = f"With {case.label}: the server's parameters are not finite. An update is parameters -= lr * gradient."
                raise bench.lost(case, "wrong_result", message, 0)
            yield case, result, values, {rank: _noted(given, result, rank) for rank in given.plan.workers}
    except Lost as lost:
        asked = "As you asked, "
        if not lost.diagnosis.message.startswith(asked) or lost.picture is None:
            raise
        told = f"With {lost.picture.case.label}: {lost.diagnosis.message.removeprefix(asked)}"
        advice = " A receive from any source then raises RuntimeError once. Catch it, drop that worker and go on."
        if not lost.picture.case.expected.plan.max_staleness:
            advice += " Then check whether the round is complete without that worker."
        raise Lost(replace(lost.diagnosis, message=told + advice), lost.picture) from None


def _noted(given: Given, result: CallResult, rank: int) -> list[Array]:
    """What the harness noted on one rank; nothing, where that has become something else."""
    rows, count = result.arguments[rank][NOTED], result.arguments[rank][COUNT]
    if not isinstance(rows, Strided) or rows.shape != given.targets[rank].shape or rows.storage.dtype != np.float32:
        return []
    many = plain.number(count) or 0
    return [np.nan_to_num(row.astype(np.float64)) for row in rows.view()[: max(int(many), 0)]]


def histories(bench: RankBench, group: str) -> Iterator[tuple[Case, CallResult, History]]:
    """The finished calls of `group`, with the server's history. Raises Lost where there is none to be found."""
    for case, result, final, noted in _calls(bench, group):
        found = history(case.expected, noted, final)
        if found is None:
            message = (
                f"With {case.label}: for {case.expected.plan.steps} steps the workers computed "
                f"{', '.join(f'{len(rows)} (rank {rank})' for rank, rows in noted.items())} gradients, far too many. "
                "After a refusal, compute the gradient on fresh parameters. On the old ones it is too old forever."
            )
            raise bench.lost(case, "wrong_result", message)
        if found.owner and not found.applied and found.final_rest < NEAR:
            message = f"With {case.label}: the parameters never changed. Update the tensor that serve() gets, in place."
            raise bench.lost(case, "wrong_result", message, 0)
        yield case, result, found


# ---- values


def loss(bench: RankBench) -> Outcome:
    """The loss in the end, as a share of what it was."""
    for case, _, final, _ in _calls(bench, "loss"):
        given: Given = case.expected
        first, last = given.gap(given.start), given.gap(final)
        tally.note("loss that is left", 100 * last / first, 100 * BOUND, "%", where=case.label)
        if last <= BOUND * first:
            continue
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
    return bench.picture("loss")


def updates(bench: RankBench) -> Outcome:
    """Each worker's steps are in the final parameters, each once; and no request is left open."""
    for case, result, found in histories(bench, "updates"):
        _once(bench, case, found)
        checks.undisturbed(bench, case, result)
    return bench.picture("updates")


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
        message = f"{label} every gradient counts {even:.3g} times in the final parameters instead of once.{against} An update is parameters -= lr * gradient."
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
