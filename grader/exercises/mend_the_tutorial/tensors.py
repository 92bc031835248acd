"""Judges share_labels, gather_counts and masked_loss: what every rank returned."""

from __future__ import annotations

from typing import Any

import numpy as np

from grader import says
from grader.exercises.common import checks, plain
from grader.exercises.mend_the_tutorial.training import Array
from grader.ranks.program import CallResult, Strided
from grader.worlds.cases import Case
from grader.worlds.ranks import Outcome, RankBench

ROUNDED = (("float32", 24), ("float64", 53))


def _through(got: int, right: int) -> str:
    """By which dtype a whole number lost its last bits; nothing where none of them gives this number."""
    for name, bits in ROUNDED:
        if got != right and got == int(np.dtype(name).type(right)):
            return f" {got:,} is {right:,} as {name}, which keeps {bits} bits. Keep int64 in every tensor."
    if got != right and (got - right) % 2**32 == 0:
        return f" {got:,} has the last 32 bits of {right:,} only. Keep int64 in every tensor."
    return ""


def _listed(found: Any) -> str:
    """A list with its numbers as Python writes them, because whether they are ints is what is asked; others in words."""
    if not isinstance(found, list):
        return plain.in_words(found)
    parts = [repr(each) if isinstance(each, (int, float)) else plain.in_words(each) for each in found[:4]]
    return f"the list [{', '.join(parts)}{', ...' if len(found) > 4 else ''}]"


def share_labels(bench: RankBench) -> Outcome:
    """Every rank returns rank 0's labels as int64, bit for bit."""
    for case, result in bench.calls("share_labels"):
        checks.allowed(bench, case, result)
        right: Array = case.expected
        for rank, found in enumerate(result.returned):
            got = found.view() if isinstance(found, Strided) else None
            wanted = f"{says.counted(len(right), 'label')} as int64"
            if got is None or got.shape != right.shape or got.dtype != right.dtype:
                told = plain.in_words(found)
                text = (
                    f"With {case.label}: share_labels on rank {rank} returned {told}. Return a tensor of shape "
                    f"({len(right)},) and dtype int64 on every rank{', also for n = 0' * (not len(right))}."
                )
                raise bench.lost(case, "wrong_result", text, rank, wanted, told)
            if not np.array_equal(got, right):
                place = int(np.flatnonzero(got != right)[0])
                one, other = int(got[place]), int(right[place])
                text = (
                    f"With {case.label}: rank {rank} returned {one:,} as label {place}. Rank 0 was given {other:,}."
                    f"{_through(one, other) or ' Return the labels of rank 0, unchanged, on every rank.'}"
                )
                raise bench.lost(case, "wrong_result", text, rank, f"{other:,}", f"{one:,}")
    return bench.picture("share_labels", 3)


def gather_counts(bench: RankBench) -> Outcome:
    """Rank 0 returns the list of all counts, every other rank None."""
    for case, result in bench.calls("gather_counts"):
        checks.allowed(bench, case, result)
        right: list[int] = case.expected
        for rank, found in enumerate(result.returned):
            if rank and found is not None:
                told = _listed(found)
                text = f"With {case.label}: gather_counts on rank {rank} returned {told}. Return None on all ranks but rank 0."
                raise bench.lost(case, "wrong_result", text, rank, "None", told)
            if rank:
                continue
            if not isinstance(found, list) or any(type(each) is not int for each in found) or len(found) != len(right):
                told = _listed(found)
                text = (
                    f"With {case.label}: gather_counts on rank 0 returned {told}. Return a list of "
                    f"{says.counted(len(right), 'Python int')}, one for each rank."
                )
                raise bench.lost(case, "wrong_result", text, rank, f"a list of {len(right)} ints", told)
            _counts(bench, case, found, right)
    return bench.picture("gather_counts", 3)


def _counts(bench: RankBench, case: Case, found: list[int], right: list[int]) -> None:
    for rank, (got, wanted) in enumerate(zip(found, right, strict=True)):
        if got == wanted:
            continue
        why = _through(got, wanted)
        if sorted(found) == sorted(right):
            why = " All counts are there, in another order. Put the count of rank r at index r."
        text = (
            f"With {case.label}: in rank 0's list, element {rank} is {got:,}. Rank {rank} gave {wanted:,}."
            f"{why or ' Return each count as the rank gave it.'}"
        )
        raise bench.lost(case, "wrong_result", text, 0, f"{wanted:,}", f"{got:,}")


# ---- masked_loss


def _one(logits: Array, labels: Array, mask: Array) -> tuple[float, Array]:
    """The sum of the cross entropies of a rank's counted tokens, and its gradient; both in float64."""
    flat, chosen = logits.reshape(-1, logits.shape[-1]), np.flatnonzero(mask.reshape(-1))
    shifted = flat - flat.max(1, keepdims=True)
    logs = shifted - np.log(np.exp(shifted).sum(1, keepdims=True))
    targets = labels.reshape(-1)[chosen]
    gradient = np.zeros_like(flat)
    gradient[chosen] = np.exp(logs[chosen])
    gradient[chosen, targets] -= 1
    return -float(logs[chosen, targets].sum()), gradient.reshape(logits.shape)


def masked_loss(bench: RankBench) -> Outcome:
    """N times each rank's sum over the count of all ranks, and the gradients that belong to it."""
    for case, result in bench.calls("masked_loss"):
        checks.allowed(bench, case, result)
        sums = [_one(*each) for each in case.expected]
        counts = [int(mask.sum()) for _, _, mask in case.expected]
        for rank in range(case.ranks):
            _loss_of(bench, case, result, rank, sums, counts)
    return bench.picture("masked_loss", 3)


def _loss_of(
    bench: RankBench, case: Case, result: CallResult, rank: int, sums: list[tuple[float, Array]], counts: list[int]
) -> None:
    scale = case.ranks / max(1, sum(counts))
    right, gradient = scale * sums[rank][0] + 0.0, scale * sums[rank][1]
    found = checks.field(result, rank, "loss")
    value = found.view() if isinstance(found, Strided) else None
    if value is None or value.size != 1:
        told = plain.in_words(found)
        text = f"With {case.label}: masked_loss on rank {rank} returned {told}. Return the loss as a tensor with one element."
        raise bench.lost(case, "wrong_result", text, rank, "a tensor with one element", told)
    got = float(value.reshape(-1)[0])
    who = f"Rank {rank} has {says.counted(counts[rank], 'token')} that count{'s' * (counts[rank] == 1)}, of {sum(counts)} on all ranks."
    if not np.isclose(got, right, rtol=1e-5, atol=1e-9):
        one, other = plain.apart(got, right)
        text = f"With {case.label}: the loss on rank {rank} is {one} instead of {other}. {who} {_why(got, rank, sums, counts)}"
        raise bench.lost(case, "wrong_result", text.strip(), rank, other, one)
    joined, held = checks.field(result, rank, "joined"), checks.array(checks.field(result, rank, "gradient"))
    if joined is not True or held is None:
        todo = (
            "Compute the loss from the logits while autograd records: without detach(), item() and torch.no_grad()."
            if counts[rank]
            else "Return a zero that is computed from the logits, such as logits.sum() * 0."
        )
        text = (
            f"With {case.label}: the loss on rank {rank} does not depend on the logits, so backward() gives them no "
            f"gradient. {who} {todo}"
        )
        raise bench.lost(
            case, "wrong_result", text, rank, "zero gradients" if not counts[rank] else "gradients", "none"
        )
    if held.shape != gradient.shape or not np.allclose(held, gradient, rtol=1e-5, atol=1e-9):
        text = (
            f"With {case.label}: the loss on rank {rank} is right, but its gradient with respect to the logits is not. "
            "The factor N / count is part of the loss: multiply before backward()."
        )
        raise bench.lost(case, "wrong_result", text, rank, "the gradient of that loss", "another one")


def _why(got: float, rank: int, sums: list[tuple[float, Array]], counts: list[int]) -> str:
    """What a wrong loss is, where the numbers say so."""
    own, everybody, n = sums[rank][0], max(1, sum(counts)), len(counts)
    tokens = sums[rank][1].size // max(1, sums[rank][1].shape[-1])
    known: list[tuple[float, str]] = [
        (
            own / max(1, counts[rank]),
            "This is the mean over this rank's own tokens. Divide by the count of all ranks, and multiply by N.",
        ),
        (own / everybody, "The factor N is missing: DDP divides the sum of the gradients by N."),
        (own, "This is the sum, which nothing has divided."),
        (own / tokens, "This is the sum divided by all tokens of this rank. Only tokens whose mask is True count."),
        (
            n * sum(each for each, _ in sums) / everybody,
            "This is N times the mean over all ranks' tokens. Use this rank's own sum.",
        ),
        (
            sum(each for each, _ in sums) / everybody,
            "This is the mean over all ranks' tokens. Use N times this rank's own sum.",
        ),
    ]
    if np.isnan(got):
        return "Divide by the count only where it is not zero."
    for value, text in known:
        if np.isclose(got, value, rtol=1e-5, atol=1e-12):
            return text
    return "Return N times this rank's sum over the tokens whose mask is True, divided by the count of all ranks."
