"""Simulated ranks against real ones: the same call on both must send the same messages and come to the same result.

Simulated ranks share a process, so code there could take what it wants from another rank without a message, and have
messages for show. Real ranks share nothing but a network. One case of each group therefore has a twin on processes.
"""

from __future__ import annotations

import random
from collections.abc import Iterable
from dataclasses import replace
from typing import Any

import numpy as np

from grader.ranks.network import ROUNDS
from grader.ranks.program import CallResult, Strided, nested
from grader.sandbox.frames import Other
from grader.trace.events import SEND
from grader.verdict import Diagnosis
from grader.worlds.cases import Case

RANKS = (5, 6, 7)  # of the twins: the first that a group has, in an order drawn from the seed, or else
FEWER = (4, 8, 3, 2)


def twins(cases: Iterable[Case], seed: int) -> dict[Case, Case]:
    """For one simulated case of each group, drawn from `seed`, the same case on real processes."""
    groups: dict[str, list[Case]] = {}
    for case in cases:
        if case.engine == "sim" and case.telling and not case.faults:
            groups.setdefault(case.group, []).append(case)
    drawn = random.Random(seed)
    order = (*drawn.sample(RANKS, len(RANKS)), *FEWER)
    found = {}
    for group in groups.values():
        ranks = next((n for n in order if any(case.ranks == n for case in group)), None)
        if ranks is not None:
            alike = [case for case in group if case.ranks == ranks]
            most = max(map(_elements, alike))  # of empty tensors much can be said that is true
            chosen = drawn.choice([case for case in alike if 2 * _elements(case) >= most])
            found[chosen] = replace(chosen, engine="gloo", network=ROUNDS)
    return found


def _elements(case: Case) -> int:
    return sum(value.numel for given in case.arguments for value in nested(given, Strided))


def difference(case: Case, simulated: CallResult, real: CallResult, file: str) -> Diagnosis | None:
    """How the twins' calls differ, if they do."""
    for rank in range(case.ranks):
        there, here = _sent(simulated, rank), _sent(real, rank)
        if there != here:
            to = next(peer for peer in sorted({*there, *here}) if there.get(peer) != here.get(peer))
            simply, really = (
                f"{sum(sizes):,} bytes in {len(sizes)} message{'s' if len(sizes) != 1 else ''}"
                for sizes in (there.get(to, ()), here.get(to, ()))
            )
            return Diagnosis(
                "sandbox_violation",
                f"With {case.label}: rank {rank} sent {simply} to rank {to} as a simulated rank, but {really} as a "
                "real process. The same call must send the same messages everywhere. Do not share data between ranks "
                "in any other way, and do not let messages depend on the process or on time.",
                rank, file, None, simply, really,
            )  # fmt: skip
    if simulated.diagnoses:
        return None  # a race may end in one way here and in another there
    if real.diagnoses:
        return real.diagnoses[0]
    for rank in range(case.ranks):
        mine = [simulated.arguments[rank], simulated.returned[rank]], [real.arguments[rank], real.returned[rank]]
        if not _same(*mine):
            return Diagnosis(
                "sandbox_violation",
                f"With {case.label}: rank {rank} had another result as a real process than as a simulated rank, after "
                "the same messages. A rank may learn about the others only from messages. Do not share data between "
                "ranks in any other way.",
                rank, file,
            )  # fmt: skip
    return None


def never_the_same(case: Case, file: str) -> Diagnosis:
    """What is said of a call that does not do the same twice even on real processes."""
    what = "the same call, made twice on real processes, did not do the same"
    todo = "Fill every tensor that torch.empty makes before you read it, and do not let results depend on time."
    return _unlike(case, file, what, todo)


def after_others(case: Case, file: str) -> Diagnosis:
    """What is said of a call that does otherwise after other calls than alone."""
    what = "this call did not do the same after other calls as it does alone, in a new process"
    todo = (
        "Keep nothing from one call to the next, such as a buffer in a global variable, and fill every tensor that "
        "torch.empty makes before you read it."
    )
    return _unlike(case, file, what, todo)


def _unlike(case: Case, file: str, what: str, todo: str) -> Diagnosis:
    text = f"With {case.label}: {what}. The same inputs must give the same messages and the same result. {todo}"
    return Diagnosis("nondeterministic", text, None, file)


def _sent(result: CallResult, rank: int) -> dict[int, list[int]]:
    """The sizes of what a rank sent, by whom it was sent to."""
    found: dict[int, list[int]] = {}
    for op in result.trace.operations(rank):
        if op.kind == SEND:
            found.setdefault(op.peer, []).append(op.size)
    return {peer: sorted(sizes) for peer, sizes in found.items()}


def _same(one: Any, other: Any) -> bool:
    if isinstance(one, Strided) and isinstance(other, Strided):
        return _close(one.view(), other.view())
    if isinstance(one, (list, tuple)) and isinstance(other, (list, tuple)):
        return len(one) == len(other) and all(_same(a, b) for a, b in zip(one, other, strict=True))
    if isinstance(one, dict) and isinstance(other, dict):
        return one.keys() == other.keys() and all(_same(one[key], other[key]) for key in one)
    if isinstance(one, float) and isinstance(other, float):
        return _close(np.array(one), np.array(other))
    if isinstance(one, Other) and isinstance(other, Other):
        return one == other
    return type(one) is type(other) and bool(one == other)


def _close(one: np.ndarray[Any, Any], other: np.ndarray[Any, Any]) -> bool:
    """Equal up to the order of additions, which may depend on the order of arrival."""
    if one.shape != other.shape or one.dtype != other.dtype:
        return False
    if one.dtype.kind in "fc":
        return bool(np.allclose(one, other, rtol=1e-4, atol=1e-6, equal_nan=True))
    return bool(np.array_equal(one, other))
