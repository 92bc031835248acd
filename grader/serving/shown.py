"""An engine's run as a picture, and a small trace to watch one by."""

from __future__ import annotations

from typing import Any

from grader.serving.follow import Follow
from grader.serving.run import Event, Request, Trace, serve
from grader.trace.lanes import Cell, Does, Lanes


def picture(run: Follow, label: str = "", wrong: tuple[int, int] | None = None) -> Lanes:
    """The lanes of a record that was read. `wrong`: the request's number, or -1, and the step."""
    order = list(run.live)
    row = {number: at for at, number in enumerate(order)}
    lanes = [(str(run.live[number].name), list[Cell]()) for number in order]
    cancelled: dict[int, int] = {}
    begun: set[int] = set()
    for frame in run.frames:
        for event in frame.events:
            if event.what == "cancel" and event.request in row and event.request not in cancelled:
                last = lanes[row[event.request]][1]
                if last and last[-1].step == frame.step - 1 and run.live[event.request].ended == "cancelled":
                    cancelled[row[event.request]] = frame.step
        for number, before in frame.before.items():
            part = frame.of(number)
            cell = Cell(frame.step, "left out" if before.decoding else "waits")
            if part is not None:
                anew = (part.first and before.begun) or (number in begun and not part.decodes)
                if anew:
                    begun.add(number)
                does: Does = "decodes" if part.decodes else "again" if anew else "prompt"
                if does == "decodes":
                    begun.discard(number)
                cell = Cell(frame.step, does, part.count)
            lanes[row[number]][1].append(cell)
    held = [{row[number]: table for number, table in frame.held.items()} for frame in run.frames]
    where = (row.get(wrong[0], -1), wrong[1]) if wrong else None
    trace = run.trace
    times = [frame.begin / 2000 for frame in run.frames]
    return Lanes(
        lanes, len(run.frames), trace.budget, trace.blocks, held, times, cancelled, where, subtitle=label
    )  # fmt: skip


def watch(engine: Any, blocks: int = 16, block_size: int = 4, max_tokens_per_step: int = 12) -> Lanes:
    """Run an Engine on seven requests, of which one is cancelled and two begin with the same tokens, and draw it.

    Raises ValueError where the engine does what it must not, in words.
    """
    prompts = [(9, 12), (6, 10), (17, 6), (5, 14), (17, 5), (8, 8), (11, 6)]
    requests = tuple(
        Request(
            "ABCDEFG"[at], tuple((7 * (at if at != 4 or p > 12 else 2) + 5 * p) % 31 + 1 for p in range(length)), new
        )
        for at, (length, new) in enumerate(prompts)
    )
    events = (*(Event("submit", at, 14_000 * at) for at in range(len(requests))), Event("cancel", 3, 90_000))
    trace = Trace(blocks, block_size, max_tokens_per_step, requests, tuple(sorted(events, key=lambda e: e.at)), 1)
    run = Follow(trace)
    for frame in run.read(serve(engine, trace, 400)):
        for one in run.alive:
            if frame.of(one.number) is None and frame.before[one.number].decoding:
                one.absent = True
    bad = run.findings[0] if run.findings else None
    found = picture(run, f"{blocks} blocks of {block_size} slots", (bad.request, bad.step) if bad else None)
    seconds, count = run.progress.now / 2e6, sum(one.returned for one in run.live.values())
    found.title = (
        bad.text if bad else f"{count} tokens in {1000 * seconds:.0f} ms: {count / seconds:.0f} tokens a second"
    )
    return found
