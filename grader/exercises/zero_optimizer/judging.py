"""Judges of zero_optimizer: the parameters after every step, and the budgets of memory, collectives and bytes."""

from __future__ import annotations

import contextlib
import math
from collections.abc import Iterator

import numpy as np

from grader import says, tally
from grader.exercises.common import checks, plain
from grader.exercises.zero_optimizer.training import Array, Given, mistakes
from grader.lost import Lost
from grader.ranks.program import CallResult, Strided
from grader.trace.events import Operation
from grader.verdict import Kind
from grader.worlds.cases import Case
from grader.worlds.ranks import Outcome, RankBench

SLACK = 1.1  # of memory and of bytes: shards that are whole parameters, or padded
WRONG = "the parameters are wrong"  # why a check about something else does not judge
NEAR = 5e-5  # what float32 may lose in ten steps on values of about 1; the mistakes are a hundred times as large


def values(bench: RankBench, group: str) -> Iterator[tuple[Case, CallResult]]:
    """The calls of `group`, each with the parameters of the unsharded optimizer. Raises Lost at the first without."""
    for case, result in bench.calls(group):
        checks.allowed(bench, case, result)
        given: Given = case.expected
        right, got = given.rows(), [_rows(bench, case, result, rank) for rank in range(case.ranks)]
        if not all(_near(rows, right) for rows in got):
            checks.undisturbed(bench, case, result)
            raise _wrong(bench, case, result, right, got)
        yield case, result


def _counted(bench: RankBench) -> Iterator[tuple[Case, CallResult]]:
    """The calls in which state and collectives are counted: those of stage 1, and of stage 2 those that are right.
    Where they are not, it is the checks of stage 2 that say so."""
    yield from checks.if_right(values(bench, "budget1"), WRONG)
    with contextlib.suppress(Lost):
        yield from list(values(bench, "budget2"))


def _rows(bench: RankBench, case: Case, result: CallResult, rank: int) -> Array:
    """The parameters of one rank after every step, as the harness returned them. Raises Lost."""
    given: Given = case.expected
    rows = checks.field(result, rank, "parameters")
    wanted = given.plan.steps, len(given.start)
    if not isinstance(rows, Strided) or rows.shape != wanted or rows.storage.dtype.kind != "f":
        message = f"With {case.label}: on rank {rank} the parameters became {plain.in_words(rows)}; their shapes and "
        raise bench.lost(case, "wrong_result", f"{message}their number must stay as they are.", rank)
    return rows.view().astype(np.float64)


def _near(got: Array, right: Array) -> bool:
    return bool(np.allclose(got, right, rtol=NEAR, atol=NEAR))


def _wrong(bench: RankBench, case: Case, result: CallResult, right: Array, got: list[Array]) -> Lost:
    """The first step after which some rank's parameters are wrong, and the mistake that explains it."""
    given: Given = case.expected
    plan = given.plan
    wrong = [~np.isclose(rows, right, rtol=NEAR, atol=NEAR) for rows in got]
    step = min(int(np.argmax(bad.any(1))) for bad in wrong if bad.any())
    rank = next(rank for rank, bad in enumerate(wrong) if bad[step].any())
    place = int(np.argmax(wrong[rank][step]))
    index = next(index for index, where in enumerate(plan.slices) if where.start <= place < where.stop)
    many = int(wrong[rank][step].sum())
    share = f"{many:,} of {len(given.start):,} elements differ{'s' * (many == 1)}"
    one, other = plain.apart(float(got[rank][step, place]), float(right[step, place]))
    said = (
        f"With {case.label}: after step {step + 1} of {plan.steps}, rank {rank}'s parameters are not those of the "
        f"unsharded optimizer. {share}, the first in parameter {index} {plan.shapes[index]}: {one} instead of {other}."
    )
    state = [checks.amount(result, each, "state") for each in range(case.ranks)]
    message = f"{said} {_why(given, got, rank, state)}".strip()
    return bench.lost(case, "wrong_result", message, rank, other, one)


def _why(given: Given, got: list[Array], rank: int, state: list[float]) -> str:
    """What the wrong parameters of `rank` are; `state` is what each rank's optimizer keeps, in bytes."""
    rows = got[rank]
    for wrong, sentence in mistakes(given):
        if not _near(wrong, given.rows()) and all(np.allclose(other, wrong, rtol=1e-3, atol=1e-3) for other in got):
            return sentence
    if given.plan.stage == 2 and len(got) > 1:
        alone = np.stack([given.rows(gradients=own) for own in given.gradients])
        if np.isclose(rows, alone, rtol=1e-3, atol=1e-3).any(0).all():
            return (
                "Each element was stepped with the gradient of one rank alone. In stage 2, step() must first average the "
                "gradients over the ranks."
            )
    if all(np.array_equal(other[0], given.start) and np.array_equal(other[-1], other[0]) for other in got):
        return "No parameter ever changes: step() does nothing to the tensors that it was given."
    if _near(rows, np.vstack([given.start, given.rows()[:-1]])):
        return "The parameters are one step behind. Gather the shards after the step, not before."
    unchanged, first = rows[-1] == given.start, given.rows()[0]
    if unchanged.any() and all(_near(other, rows) for other in got):
        idle = [each for each, kept in enumerate(state) if not kept]
        count = int(unchanged.sum())
        told = f"{says.counted(count, 'element')} never change{'s' * (count == 1)} on any rank"
        if idle and len(idle) < len(got):
            return (
                f"{told}. {says.names(idle).capitalize()} {'keeps' if len(idle) == 1 else 'keep'} no optimizer state: "
                "the optimizer there never steps. Each rank must step its own shard."
            )
        return f"{told}: no rank steps them."
    if unchanged.any() and _near(rows[0][~unchanged], first[~unchanged]):
        elsewhere = np.any([np.isclose(other[0], first, rtol=NEAR, atol=NEAR) for other in got], axis=0)
        if elsewhere[unchanged].all():
            return (
                f"{unchanged.sum()} elements on rank {rank} are as they were at the start, and right on another rank: "
                f"rank {rank} steps its own shard and never gets the others'. Gather the shards after the step."
            )
    if len(given.gradients) > 1 and not _near(rows[0], first) and _near(np.sort(rows[0]), np.sort(first)):
        return "The right values are in the wrong places: put each rank's shard back where it was cut from."
    if any(not _near(other, rows) for other in got):
        return "The ranks' parameters differ. All ranks must have the same parameters after every step."
    return ""


# ---- memory


def state(bench: RankBench) -> Outcome:
    """Bytes of optimizer state on each rank: at most 1.1/N of the unsharded optimizer's."""
    for case, result in _counted(bench):
        given: Given = case.expected
        total, n = given.plan.state_bytes, case.ranks
        kept = [checks.amount(result, rank, "state") for rank in range(n)]
        worst = max(range(n), key=lambda rank: kept[rank])
        allowed = SLACK * total / n
        tally.note("optimizer state on a rank", kept[worst], allowed, "bytes", where=case.label, reference=total,
                   of="an optimizer that is not sharded")  # fmt: skip
        if sum(kept) < 0.99 * total - 8 * len(given.plan.shapes):
            found = "no rank has made an optimizer with the given optimizer_class"
            if any(checks.amount(result, rank, "instances") for rank in range(n)):
                share = f"{100 * sum(kept) / total:.0f} %"
                found = f"the optimizers made with optimizer_class hold {share} of the optimizer's state, on all ranks together"
            what = (
                f"With {case.label}: {found}. Such optimizers must hold all of the state. Make an optimizer with optimizer_class(...) on each "
                "rank, keep it, and let it step this rank's part of the parameters in every step."
            )
            texts = f"{total:,} bytes on all ranks", f"{sum(kept):,g} bytes"
            raise bench.lost(case, "wrong_result", what, None, *texts)
        if kept[worst] > allowed:
            what = f"With {case.label}: {_too_large(given, result, kept, worst, allowed)}"
            texts = f"at most {allowed:,.0f} bytes", f"{kept[worst]:,.0f} bytes"
            raise bench.lost(case, "too_much_memory", what, worst, *texts)
    return bench.picture("budget1")


def _too_large(given: Given, result: CallResult, kept: list[float], worst: int, allowed: float) -> str:
    total = given.plan.state_bytes
    elements = checks.amount(result, worst, "elements")
    if 0 < 4 * elements <= allowed:
        return (
            f"the optimizer state on rank {worst} takes {kept[worst]:,.0f} bytes, {allowed:,.0f} allowed. It has "
            f"{elements:,.0f} elements, no more than a shard's state, but they take {kept[worst] / elements:.3g} bytes each. "
            "Give optimizer_class tensors of the parameters' own dtype."
        )
    evenly = " evenly" if sum(kept) < 1.2 * total else ""
    return (
        f"the optimizer state is not sharded{evenly}: rank {worst} holds {100 * kept[worst] / total:.0f} % of it, "
        f"{math.floor(100 * SLACK / len(kept))} % allowed. {_state_habit(given, kept, total)}"
    )


def _state_habit(given: Given, kept: list[float], total: int) -> str:
    if min(kept) > 0.99 * total:
        return (
            "Every rank holds as much as all of it: give optimizer_class only the parameters, or slices, of this rank's "
            "shard, and give them to one instance only."
        )
    if sum(kept) < 1.2 * total and max(kept) > 0.99 * total:
        return "One rank has all the work: share the elements out among the ranks."
    if sum(kept) < 1.2 * total:
        per_rank = ", ".join(f"{100 * part / total:.0f} %" for part in kept)
        if len(set(given.plan.sizes)) > 1:
            return f"The ranks hold {per_rank}: balance by the number of elements, not of parameters."
        elements = sum(given.plan.sizes)
        each = -(-elements // len(kept))
        return f"The ranks hold {per_rank}. There are {elements:,} elements: give each rank a shard of {each:,}."
    return (
        f"All ranks together hold {100 * sum(kept) / total:.0f} % of it. Keep each element's state once: on one rank, and "
        "there in one instance."
    )


@checks.judged(values, "budget2", WRONG)
def freed(bench: RankBench, case: Case, result: CallResult) -> None:
    """Bytes of gradients that are left after a step of stage 2: at most those of the rank's shard."""
    given: Given = case.expected
    total = given.plan.bytes
    held = [checks.amount(result, rank, "gradients") for rank in range(case.ranks)]
    worst = max(range(case.ranks), key=lambda rank: held[rank])
    tally.note("gradients left after a step of stage 2", held[worst], SLACK * total / case.ranks, "bytes",
               where=case.label, reference=total, of="stage 1")  # fmt: skip
    if held[worst] > SLACK * total / case.ranks:
        what = (
            f"With {case.label}: after step() rank {worst} still holds {held[worst] / total * 100:.0f} % of the "
            "gradients' memory. In stage 2 a rank keeps no gradient beyond its shard: set p.grad to None as soon "
            "as it is reduced, and keep no reference to it."
        )
        texts = f"at most {SLACK * total / case.ranks:,.0f} bytes", f"{held[worst]:,.0f} bytes"
        raise bench.lost(case, "too_much_memory", what, worst, *texts)


# ---- messages


def _allowance(by_step: list[list[Operation]], steps: int) -> int:
    """Of how many steps a budget is, for each part of what was posted; the constructor may take as much as a step."""
    return 1 if len(by_step) == steps else steps + 1


def collectives(bench: RankBench) -> Outcome:
    """Collectives of each step: at most two for every parameter group. 2(N-1) messages count as one collective."""
    for case, result in _counted(bench):
        checks.undisturbed(bench, case, result)
        given: Given = case.expected
        groups = len(given.plan.groups)
        for rank in range(case.ranks):
            steps = checks.by_step(result, rank, given.plan.steps)
            allowed = 2 * groups * _allowance(steps, given.plan.steps)
            for step, operations in enumerate(steps):
                joint = [op for op in operations if op.collective]
                messages = len(operations) - len(joint)
                count = len(joint) + -(-messages // (2 * (case.ranks - 1)))
                tally.note("collectives in a step", count, allowed, "collectives", where=case.label,
                           reference=len(given.plan.shapes), of="one for each parameter")  # fmt: skip
                if count <= allowed:
                    continue
                what = (
                    f"With {case.label}: in step {step + 1}, rank {rank} makes {_told(joint, messages)} for "
                    f"{groups} parameter group{'s' * (groups > 1)} of {len(given.plan.shapes)} parameters in all; "
                    f"two collectives a group, {allowed} here, are enough. {_habit(joint, given)}"
                )
                raise bench.lost(case, "too_many_messages", what, rank, f"at most {allowed} collectives", f"{count}")
    return bench.picture("budget1")


def _told(joint: list[Operation], messages: int) -> str:
    names = sorted({op.name for op in joint})
    told = f"{says.counted(len(joint), 'collective')} ({', '.join(names)})" if joint else ""
    return " and ".join(part for part in (told, says.counted(messages, "message") if messages else "") if part)


def _habit(joint: list[Operation], given: Given) -> str:
    if len(joint) >= len(given.plan.shapes):
        return "That is one for every parameter: lay a group's parameters out in one flat buffer and gather that."
    return "Lay a group's parameters out in one flat buffer."


@checks.judged(values, "budget2", WRONG)
def sent(bench: RankBench, case: Case, result: CallResult) -> None:
    """Bytes of each step in stage 2: those of a reduce-scatter and an all-gather, 2(N-1)/N of the parameters."""
    given: Given = case.expected
    n, plan = case.ranks, given.plan
    size = plan.bytes
    most = 2 * (n - 1) * (SLACK * size / n + 4 * len(plan.shapes))  # every parameter may be padded
    enough = 0.85 * (n - 1) * size / n
    for rank in range(n):
        steps = checks.by_step(result, rank, plan.steps)
        allowed = most * _allowance(steps, plan.steps)
        counts = [sum(checks.sent_by(op, range(n)) for op in operations) for operations in steps]
        if len(steps) == plan.steps:
            tally.note("bytes a rank sends in a step of stage 2", max(counts), allowed, "bytes", where=case.label,
                       reference=2 * (n - 1) * size / n, of="DDP's all-reduce")  # fmt: skip
        for step, count in enumerate(counts):
            if enough <= count <= allowed:
                continue
            few = count < enough
            names = ", ".join(dict.fromkeys(op.name for op in steps[step])) or "nothing"
            kind: Kind = "too_few_bytes" if few else "too_many_bytes"
            what = (
                f"With {case.label}: in step {step + 1}, rank {rank} sent {count:,} bytes ({names}) for gradients of "
                f"{size:,} bytes. {_few(n, size) if few else _many(steps[step], n, size)}"
            )
            limit = f"at least {enough:,.0f} bytes" if few else f"at most {allowed:,.0f} bytes"
            raise bench.lost(case, kind, what, rank, limit, f"{count:,} bytes")


def _few(n: int, size: int) -> str:
    return (
        f"What the others need of its gradients is (N-1)/N of them, {(n - 1) * size // n:,} bytes: they must have got it "
        "some other way than by messages."
    )


def _many(operations: list[Operation], n: int, size: int) -> str:
    right = 2 * (n - 1) * size // n
    budget = (
        f"A reduce-scatter of the gradients and an all-gather of the parameters send 2(N-1)/N of them, {right:,} bytes."
    )
    if not any(op.name.startswith("all_reduce") and op.size > 64 for op in operations):
        return budget
    if any(op.name.startswith("reduce_scatter") for op in operations):
        return f"{budget} An all-reduce of as many bytes sends as much as both."
    return f"{budget} An all-reduce sends every rank all the gradients, where it needs those of its shard."
