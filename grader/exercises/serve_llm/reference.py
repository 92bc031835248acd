"""How long the reference takes for a trace without common prefixes: its schedule, in numbers alone."""

from __future__ import annotations

from dataclasses import dataclass

from grader.serving.run import Progress, Trace


@dataclass
class _One:
    number: int
    known: int
    cached: int = 0
    blocks: int = 0
    decoding: bool = False


def seconds(trace: Trace, right: tuple[tuple[int, ...], ...]) -> float:
    """Virtual seconds from the first submit to the last token.

    Requests that decode come first, each with a block where it needs one; if there is none the youngest is preempted.
    Then prompts: a request is admitted when there are blocks for all of its tokens.
    """
    progress = Progress(trace)
    waiting: list[_One] = []
    running: list[_One] = []
    first: int | None = None
    size, free = trace.block_size, trace.blocks
    while not progress.ended:
        for event in progress.begin():
            first = progress.now if first is None else first
            waiting.append(_One(event.request, len(trace.requests[event.request].prompt)))
        chunks: list[tuple[list[int], int, list[int]]] = []
        served: list[_One] = []

        def plan(one: _One, count: int, chunks: list[tuple[list[int], int, list[int]]] = chunks,
                 served: list[_One] = served) -> None:  # fmt: skip
            chunks.append(([0] * count, one.cached, []))
            served.append(one)
            one.cached += count

        for one in [each for each in running if each.decoding]:
            while one in running and one.cached == one.blocks * size:
                if free:
                    free, one.blocks = free - 1, one.blocks + 1
                    continue
                gone = running.pop()
                free, gone.blocks, gone.cached, gone.decoding = free + gone.blocks, 0, 0, False
                waiting.insert(0, gone)
            if one in running:
                plan(one, 1)
        left = trace.budget - len(chunks)
        for one in [each for each in running if not each.decoding] + waiting:
            need = -(-one.known // size)
            if left == 0 or (one not in running and need > free):
                break
            if one not in running:
                free, one.blocks = free - need, need
                waiting.remove(one)
                running.append(one)
            count = min(left, one.known - one.cached)
            left -= count
            plan(one, count)
        returned = []
        for one in served:
            if one.cached == one.known:
                done = one.known - len(trace.requests[one.number].prompt)
                returned.append((one.number, [right[one.number][done]]))
                one.known, one.decoding = one.known + 1, True
                if done + 1 == len(right[one.number]):
                    running.remove(one)
                    free += one.blocks
        progress.stepped(chunks, returned)
    return (progress.now - (first or 0)) / 2e6
