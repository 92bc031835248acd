"""The master of chapter 04's jobs: what hands out map and reduce tasks, and hands out again what was lost or is late.

Its text is run in the job's own processes, together with a chapter's functions: it imports the standard library only.
How a master gets there is what the exercise `mapreduce` asks for; the chapter shows what this one does, not how.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable, Sequence
from typing import Any

Pairs = list[tuple[Any, Any]]


def stable(key: Any, reducers: int) -> int:
    """The reducer of a key: the same in every process, since it is made of the key's text."""
    return zlib.crc32(repr(key).encode()) % reducers


def gathered(pairs: Pairs) -> dict[Any, list[Any]]:
    """The values of each key."""
    groups: dict[Any, list[Any]] = {}
    for key, value in pairs:
        groups.setdefault(key, []).append(value)
    return groups


def map_split(
    map_fn: Callable[..., Any], combine_fn: Callable[..., Any] | None, to: Callable[..., int], split: Any, reducers: int
) -> list[Pairs]:
    """A map task: the pairs of one split, for each reducer."""
    pairs = list(map_fn(split))
    if combine_fn is not None:
        pairs = [(key, combine_fn(key, values)) for key, values in gathered(pairs).items()]
    return [[pair for pair in pairs if to(pair[0], reducers) == reducer] for reducer in range(reducers)]


def reduce_part(reduce_fn: Callable[..., Any], pairs: Pairs) -> Pairs:
    """A reduce task: the result of each key of one reducer."""
    return [(key, reduce_fn(key, values)) for key, values in gathered(pairs).items()]


class Master:
    """Runs one job. `names` says what each submitted task was, in order: "map 0", "reduce 2"."""

    def __init__(self, workers: Any, patience: float) -> None:
        self.workers, self.patience, self.names = workers, patience, list[str]()

    def phase(self, name: str, fn: Callable[..., Any], calls: Sequence[tuple[Any, ...]]) -> list[Any]:
        """What each call returns. A barrier: the last one is over before anything else begins."""
        open_ = set(range(len(calls)))
        found: list[Any] = [None] * len(calls)
        piece: dict[Any, int] = {}

        def submit(index: int) -> None:
            piece[self.workers.submit(fn, *calls[index])] = index
            self.names.append(f"{name} {index}")

        for index in range(len(calls)):
            submit(index)
        while open_:
            event = self.workers.wait_any(self.patience)
            if event is None:  # nothing for a while: a second copy of all that is late
                for index in sorted(open_):
                    submit(index)
            elif piece.get(event.task) in open_:  # else it is a late copy, perhaps of the phase before
                index = piece[event.task]
                if event.kind == "died":
                    submit(index)
                elif event.kind == "failed":
                    raise RuntimeError(event.value)
                else:
                    open_.remove(index)
                    found[index] = event.value
        return found


def mapreduce(
    map_fn: Callable[..., Any], reduce_fn: Callable[..., Any], combine_fn: Callable[..., Any] | None,
    to: Callable[..., int], splits: Sequence[Any], workers: Any, reducers: int, patience: float,
) -> dict[str, Any]:  # fmt: skip
    """A whole job: what each reducer wrote, and the names of all tasks."""
    master = Master(workers, patience)
    mapped = master.phase("map", map_split, [(map_fn, combine_fn, to, split, reducers) for split in splits])
    parts = [[pair for one in mapped for pair in one[reducer]] for reducer in range(reducers)]
    written = master.phase("reduce", reduce_part, [(reduce_fn, part) for part in parts])
    return {"written": [[list(pair) for pair in part] for part in written], "names": master.names}
