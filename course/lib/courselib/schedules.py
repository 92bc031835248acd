"""Pipeline schedules as plain data: which passes a stage makes, in which order, and with whom it exchanges messages.

A pass is [name, kept, seconds, comes_from, goes_to]: "F3" is micro-batch 3 forward, "B3" backward. `kept` names the
activation that a forward pass keeps until the backward pass that names it, too. The other two are lists of none or one
rank: from whom the pass awaits a message, and to whom it sends one.
"""

from __future__ import annotations

from collections.abc import Sequence

Pass = list[str | float | list[int]]


def in_order(order: Sequence[str], stage: int, stages: int, forward: float = 1.0, backward: float = 2.0) -> list[Pass]:
    """The passes of `order`, such as ["F0", "F1", "B0", "B1"], on a stage between its two neighbours."""
    return [_pass(name, name[1:], stage, stages, stages, forward, backward) for name in order]


def interleaved(
    stage: int, stages: int, micro_batches: int, pieces: int, forward: float = 1.0, backward: float = 2.0
) -> list[Pass]:
    """Interleaved 1F1B: each rank holds `pieces` parts of the model (Narayanan et al. 2021, section 2.2).

    Micro-batches go in groups of `stages` through one piece after the other; "f3" and "b3" are in a later piece than
    the first. Raises ValueError if `stages` does not divide them.
    """
    if micro_batches % stages:
        raise ValueError(f"{stages} stages do not divide {micro_batches} micro-batches")
    count = micro_batches * pieces
    warm_up = min(2 * (stages - stage - 1) + (pieces - 1) * stages, count)

    def unit(number: int, kind: str) -> Pass:
        piece = number % (stages * pieces) // stages
        if kind == "B":
            piece = pieces - 1 - piece
        micro_batch = number // (stages * pieces) * stages + number % stages
        part = piece * stages + stage
        name = f"{kind.lower() if piece else kind}{micro_batch}"
        kept = f"{piece}.{micro_batch}"
        return _pass(name, kept, part, stages * pieces, stages, forward / pieces, backward / pieces)

    passes = [unit(number, "F") for number in range(warm_up)]
    for number in range(count):
        if warm_up + number < count:
            passes.append(unit(warm_up + number, "F"))
        passes.append(unit(number, "B"))
    return passes


def zero_bubble(order: Sequence[str], stage: int, stages: int, each: float = 1.0) -> list[Pass]:
    """A 1F1B `order` with its backward passes cut in two (Qi et al., "Zero Bubble Pipeline Parallelism", 2023: ZB-H1).

    "B3" makes the gradient that the stage before waits for; "W3", that of the weights, can wait: here `stage` passes
    long. Forward, B and W take `each` seconds.
    """
    passes: list[Pass] = []
    waiting: list[str] = []
    for name in order:
        passes.append(_pass(name, name[1:] if name[0] == "F" else "", stage, stages, stages, each, each))
        if name[0] == "B":
            waiting.append(name[1:])
            if len(waiting) > stage:
                passes.append(_weights(waiting.pop(0), each))
    return passes + [_weights(micro_batch, each) for micro_batch in waiting]


def _weights(micro_batch: str, seconds: float) -> Pass:
    return [f"W{micro_batch}", micro_batch, seconds, [], []]


def _pass(name: str, kept: str, part: int, parts: int, ranks: int, forward: float, backward: float) -> Pass:
    """A pass through one part of the model; part i is on rank i modulo `ranks`."""
    before, after = part - 1, part + 1
    if name[0] in "Bb":
        before, after = after, before
    comes_from, goes_to = ([near % ranks] if 0 <= near < parts else [] for near in (before, after))
    return [name, kept, backward if name[0] in "Bb" else forward, comes_from, goes_to]
