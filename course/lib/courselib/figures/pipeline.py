"""Pipeline schedules as orders of passes, what they take, and what they keep."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from courselib import schedules
from courselib.figures.shown import figure
from courselib.timeline import timeline

KINDS = {"F": "forward", "B": "backward", "W": "backward, weights", "f": "forward, later piece",
         "b": "backward, later piece"}  # fmt: skip
SCHEDULES = {"gpipe": "GPipe", "1f1b": "1F1B", "interleaved": "interleaved 1F1B", "zb-h1": "ZB-H1"}


def orders(schedule: str, stages: int, micro_batches: int, pieces: int = 1) -> list[list[str]]:
    """The passes of each stage in their order: "F3" is micro-batch 3 forward, "B3.1" backward through piece 1.

    `schedule` is a key of `SCHEDULES`. With a "W3" the gradients of the weights have a pass of their own; without one
    they are part of "B3". Raises ValueError if interleaving is asked for and `stages` do not divide `micro_batches`.
    """
    ranks = range(stages)
    if schedule == "interleaved":
        passes = [schedules.interleaved(s, stages, micro_batches, pieces) for s in ranks]
        return [[_name(str(name)[0].upper(), str(kept)) for name, kept, *_ in row] for row in passes]
    if schedule == "gpipe":
        return [[f"{kind}{i}" for kind in "FB" for i in range(micro_batches)] for _ in ranks]
    alternating = [_one_forward_one_backward(stages - s - 1, micro_batches) for s in ranks]
    if schedule == "zb-h1":
        return [[str(one[0]) for one in schedules.zero_bubble(row, s, stages)] for s, row in enumerate(alternating)]
    return alternating


def _name(kind: str, kept: str) -> str:
    piece, micro_batch = kept.split(".")
    return f"{kind}{micro_batch}" + (f".{piece}" if piece != "0" else "")


def _one_forward_one_backward(warm_up: int, micro_batches: int) -> list[str]:
    warm_up = min(warm_up, micro_batches)
    order = [f"F{i}" for i in range(warm_up)]
    for i in range(micro_batches):
        if warm_up + i < micro_batches:
            order.append(f"F{warm_up + i}")
        order.append(f"B{i}")
    return order


@dataclass(frozen=True)
class Played:
    """When each stage makes its passes (name, since, until), the seconds of the step, the share of it in which a stage
    is idle, and how many micro-batches' activations of a whole stage each stage keeps at most."""

    rows: list[list[tuple[str, float, float]]]
    seconds: float
    bubble: float
    peaks: list[float]


def played(rows: Sequence[Sequence[str]], forward: float, backward: float, weights: float) -> Played:
    """The stages' `rows`, each pass as early as its order allows; messages take no time.

    Activations are kept from a forward pass to the W of the same micro-batch, or to its B where there is no W. Raises
    ValueError where stages wait for each other for ever.
    """
    stages, split = len(rows), any(name[0] == "W" for row in rows for name in row)
    pieces = 1 + max(_parts(name)[2] for row in rows for name in row)
    lasts = {"F": forward, "B": backward + (0 if split else weights), "W": weights}
    ended: dict[tuple[str, int, int], float] = {}  # kind, micro-batch, part of the model
    done: list[list[tuple[str, float, float]]] = [[] for _ in rows]
    while any(len(row) < len(todo) for row, todo in zip(done, rows, strict=True)):
        before = len(ended)
        for stage, (row, todo) in enumerate(zip(done, rows, strict=True)):
            while len(row) < len(todo):
                kind, micro_batch, piece = _parts(todo[len(row)])
                part = piece * stages + stage
                needs = _needs(kind, micro_batch, part, stages * pieces)
                if needs and needs not in ended:
                    break
                since = max(row[-1][2] if row else 0.0, ended.get(needs, 0.0) if needs else 0.0)
                ended[kind, micro_batch, part] = since + lasts[kind] / pieces
                row.append((todo[len(row)], since, since + lasts[kind] / pieces))
        if len(ended) == before:
            raise ValueError("the stages wait for each other for ever")
    seconds = max(row[-1][2] for row in done)
    work = sum(until - since for _, since, until in done[0])
    return Played(done, seconds, 1 - work / seconds, [_peak(row, "W" if split else "B") / pieces for row in rows])


def _parts(name: str) -> tuple[str, int, int]:
    micro_batch, _, piece = name[1:].partition(".")
    return name[0], int(micro_batch), int(piece or 0)


def _needs(kind: str, micro_batch: int, part: int, parts: int) -> tuple[str, int, int] | None:
    """The pass that must have ended before."""
    if kind == "W":
        return "B", micro_batch, part
    if kind == "B":
        return ("B", micro_batch, part + 1) if part + 1 < parts else ("F", micro_batch, part)
    return ("F", micro_batch, part - 1) if part else None


def _peak(row: Sequence[str], frees: str) -> int:
    most = kept = 0
    for name in row:
        kept += (name[0] == "F") - (name[0] == frees)
        most = max(most, kept)
    return most


def pipeline(
    schedule: str = "1f1b",
    stages: int = 4,
    micro_batches: int = 8,
    pieces: int = 2,
    *,
    forward: float = 1.0,
    backward: float = 1.0,
    weights: float = 1.0,
) -> Any:
    """A pipeline schedule (a key of `SCHEDULES`) as lanes, whose passes can be moved.

    The three times are those of a micro-batch on a stage, in seconds: forward, backward for the gradient of the input,
    and for that of the weights. `pieces` is for interleaving. Raises ValueError as `orders` does.
    """
    found = played(orders(schedule, stages, micro_batches, pieces), forward, backward, weights)
    rows = {
        f"stage {s}": [(a, b, name, KINDS[name[0].lower() if "." in name else name[0]]) for name, a, b in row]
        for s, row in enumerate(found.rows)
    }
    still = timeline("A pipeline, pass by pass", rows, kinds=[*KINDS.values()])
    return figure(
        "pipeline",
        still,
        question='GPipe or 1F1B: what differs, the bubble or the activations? Then choose "your own" and move '
        "passes: can you get down to 27 s, with at most 4 activations on every stage?",
        answer="The bubble is the same, 27 %. GPipe keeps 8 activations on every stage. 1F1B keeps 4 on stage 0 "
        'and 1 on stage 3. "Your own" begins with 1F1B and cuts each backward pass in two. That alone '
        "saves 3 s, because the stage before no longer waits for the W. For 27 s, let W wait longer: "
        "stage s makes the W of a micro-batch s micro-batches after its B, and the last ones at the end. "
        "That is ZB-H1: choose it and compare.",
        schedule=schedule, stages=stages, micro_batches=micro_batches, pieces=pieces, forward=forward,
        backward=backward, weights=weights, own=[],
    )  # fmt: skip
