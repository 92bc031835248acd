"""What a watched run left behind, read back: TensorBoard's events, W&B's offline file, the profiler's trace.

scalars(folder / "tensorboard")["loss/all"]      [(step, value), ...]
history(next(folder.glob("wandb/*/*.wandb")))    [{"_step": 0, "loss/all": 1.1, ...}, ...]
spans(folder / "trace-0.json")                   [Span("backward", 0.0098, 0.036, thread), ...]
"""

from __future__ import annotations

import importlib
import json
import struct
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from courselib.timeline import Box

BLOCK = 32768  # W&B's file is LevelDB's log: records cut at blocks of 32 KiB
HEADER = struct.Struct("<IHB")  # checksum, length, and which part of a record: 1 all of it, 2 first, 3 middle, 4 last
COLLECTIVE = "gloo:"


def scalars(folder: Path) -> dict[str, list[tuple[int, float]]]:
    """Every scalar in TensorBoard's event files below `folder`: (step, value) in order. Raises ImportError."""
    module = importlib.import_module("tensorboard.backend.event_processing.event_accumulator")
    events = module.EventAccumulator(str(folder), size_guidance={"scalars": 0})
    events.Reload()
    return {tag: [(each.step, each.value) for each in events.Scalars(tag)] for tag in events.Tags()["scalars"]}


def history(path: Path) -> list[dict[str, Any]]:
    """What a run logged, from its `.wandb` file: one dict for each call of log(). Raises ImportError and ValueError."""
    kind = importlib.import_module("wandb.proto.wandb_internal_pb2").Record
    logged = []
    for record in records(path.read_bytes()):
        message = kind.FromString(record)
        if message.WhichOneof("record_type") == "history":
            names = ((item.key or ".".join(item.nested_key), item.value_json) for item in message.history.item)
            logged.append({name: json.loads(value) for name, value in names})
    return logged


def records(raw: bytes) -> Iterator[bytes]:
    """The records of a file of W&B: LevelDB's log format after seven bytes of its own. Raises ValueError."""
    if raw[:4] != b":W&B":
        raise ValueError("this is not a file of W&B: it does not begin with :W&B")
    at, parts = 7, b""
    while at + HEADER.size <= len(raw):
        if BLOCK - at % BLOCK < HEADER.size:  # no header fits: the block is filled up
            at += BLOCK - at % BLOCK
            continue
        _, length, part = HEADER.unpack_from(raw, at)
        at += HEADER.size
        parts += raw[at : at + length]
        at += length
        if part in (1, 4):
            yield parts
            parts = b""


@dataclass(frozen=True)
class Span:
    """One box of a trace: seconds on the machine's clock, and the thread that it was on."""

    name: str
    since: float
    seconds: float
    thread: str

    @property
    def until(self) -> float:
        return self.since + self.seconds


def spans(path: Path) -> list[Span]:
    """The complete events ("ph": "X") of a Chrome trace as torch.profiler exports it, by their beginning."""
    events = json.loads(path.read_text())["traceEvents"]
    found = [Span(e["name"], e["ts"] / 1e6, e["dur"] / 1e6, str(e["tid"])) for e in events if e.get("ph") == "X"]
    return sorted(found, key=lambda span: (span.since, -span.seconds))


def step_rows(ranks: Sequence[Iterable[Span]], phases: Sequence[str]) -> dict[str, list[Box]]:
    """For `timeline`: two rows a rank, its phases (record_function's names) and its collectives, all from one zero.

    The ranks must share a clock, as those of one machine do. Raises ValueError where no phase is in any of the traces.
    """
    kept = [[span for span in each if span.name in phases or span.name.startswith(COLLECTIVE)] for each in ranks]
    starts = [span.since for each in kept for span in each if span.name in phases]
    if not starts:
        raise ValueError(f"none of {', '.join(phases)} is in these traces")
    zero, rows = min(starts), dict[str, list[Box]]()
    for rank, each in enumerate(kept):
        works = [span for span in each if span.name in phases]
        sends = [span for span in each if span.name.startswith(COLLECTIVE) and span.since >= zero]
        rows[f"rank {rank} computes"] = [(s.since - zero, s.until - zero, s.name, s.name) for s in works]
        name = "collective"
        rows[f"rank {rank} sends"] = [(s.since - zero, s.until - zero, s.name[len(COLLECTIVE) :], name) for s in sends]
    return rows


def top(each: Iterable[Span], count: int, besides: Sequence[str] = ()) -> list[tuple[str, int, float]]:
    """The names that took longest by themselves, without what lies inside: (name, how often, seconds)."""
    totals: dict[str, tuple[int, float]] = {}
    for span, own in _own(each):
        often, seconds = totals.get(span.name, (0, 0.0))
        totals[span.name] = (often + 1, seconds + own)
    ordered: Mapping[str, tuple[int, float]] = dict(sorted(totals.items(), key=lambda item: -item[1][1]))
    return [(name, *both) for name, both in ordered.items() if name not in besides][:count]


def _own(each: Iterable[Span]) -> Iterator[tuple[Span, float]]:
    """Each span with its seconds less those of the spans directly inside of it, on its own thread."""
    inside: dict[int, float] = {}
    ordered, stacks = list(each), dict[str, list[int]]()
    for number, span in enumerate(ordered):
        stack = stacks.setdefault(span.thread, [])
        while stack and ordered[stack[-1]].until <= span.since:
            stack.pop()
        if stack:
            inside[stack[-1]] = inside.get(stack[-1], 0.0) + span.seconds
        stack.append(number)
    for number, span in enumerate(ordered):
        yield span, max(0.0, span.seconds - inside.get(number, 0.0))
