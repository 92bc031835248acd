"""What happens when in a step: when DDP's buckets leave and come back, and what each rank did. Chapter 07 draws it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from time import perf_counter
from typing import Any

from courselib.timeline import Box
from grader import compute

Log = Mapping[str, Sequence[Any]]  # of a rank: when "layers" began, "buckets" (number, left, back), when steps "ended"


class Recorder:
    """Does a rank's work and notes it, as a row for `timeline`."""

    def __init__(self) -> None:
        self.boxes: list[list[Any]] = []

    def work(self, seconds: float, label: str, kind: str) -> None:
        """Compute for this time."""
        began = perf_counter()
        compute(seconds)
        self.boxes.append([began, began + seconds, label, kind])

    def rows(self, works: Sequence[Any]) -> list[list[list[Any]]]:
        """What was computed, and when the collectives of these finished requests ran (simulated ranks only)."""
        sent = [[*work.span, f"bucket {number}", "all-reduce"] for number, work in enumerate(works)]
        return [self.boxes, sent]


def watch(model: Any, layers: Sequence[Any], seconds: float) -> dict[str, list[Any]]:
    """Have each layer compute for `seconds` more in the backward pass; note when layers begin and buckets travel."""
    log: dict[str, list[Any]] = {"layers": [], "buckets": note_buckets(model), "ended": []}

    def begin(*_: Any) -> None:
        log["layers"].append(perf_counter())
        compute(seconds)

    for layer in layers:
        layer.register_full_backward_pre_hook(begin)
    return log


def note_buckets(model: Any) -> list[list[float]]:
    """Have this DDP model note [number, when it left, when it was back] of each bucket, in seconds."""
    from torch.distributed.algorithms.ddp_comm_hooks.default_hooks import allreduce_hook

    noted: list[list[float]] = []

    def timed(_, bucket):  # type: ignore[no-untyped-def]  # DDP compares annotations, which are strings here
        entry = [bucket.index(), perf_counter()]
        noted.append(entry)

        def back(future: Any) -> Any:
            entry.append(perf_counter())
            return future.value()[0]

        return allreduce_hook(None, bucket).then(back)

    model.register_comm_hook(None, timed)
    return noted


def best_step(logs: Sequence[Log], layers: int) -> tuple[dict[str, list[Box]], float]:
    """Of all steps but the first the one that other programs disturbed least: its rows for `timeline`, its seconds."""
    steps = range(1, len(logs[0]["ended"]))
    return min((_step(logs, layers, step) for step in steps), key=lambda both: both[1])


def rows(returned: Sequence[Sequence[Sequence[Box]]]) -> dict[str, Sequence[Box]]:
    """The rows of all ranks, from what `Recorder.rows` returned on each."""
    named: dict[str, Sequence[Box]] = {}
    for rank, (computed, sent) in enumerate(returned):
        named |= {f"rank {rank} computes": computed, f"rank {rank} all-reduces": sent}
    return named


def _step(logs: Sequence[Log], layers: int, step: int) -> tuple[dict[str, list[Box]], float]:
    """A step is over when the last rank is; it has begun when the last has."""
    began = [log["layers"][layers * step : layers * (step + 1)] for log in logs]
    ended = [log["ended"][step] for log in logs]
    zero = min(times[0] for times in began)
    rows: dict[str, list[Box]] = {}
    for rank, log in enumerate(logs):
        sent = [entry for entry in log["buckets"] if began[rank][0] < entry[1] < ended[rank]]
        borders = [*began[rank], sent[-1][1], ended[rank]]
        names = [*((f"layer {layer}", "backward") for layer in range(layers, 0, -1)), ("waits", "wait")]
        rows[f"rank {rank} computes"] = [
            (since - zero, until - zero, *name)
            for since, until, name in zip(borders[:-1], borders[1:], names, strict=True)
        ]
        rows[f"rank {rank} all-reduces"] = [
            (left - zero, back - zero, f"{number:g}", "all-reduce") for number, left, back in sent
        ]
    return rows, max(ended) - max(times[0] for times in began)
