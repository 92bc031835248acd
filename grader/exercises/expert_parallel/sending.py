"""Judges of what expert_parallel sends: exchanges, collectives and bytes, in each part of a step."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator

import numpy as np

from grader import says, tally
from grader.exercises.common import checks
from grader.exercises.expert_parallel import moe
from grader.exercises.expert_parallel.found import Found
from grader.exercises.expert_parallel.moe import Batch, Layer
from grader.lost import Unable
from grader.ranks.blame.source import Source
from grader.trace.events import SEND, Operation
from grader.worlds.cases import Case
from grader.worlds.ranks import RankBench

PARTS = ("forward", "backward", "finish_gradient_sync()")
EXCHANGES = (3, 2)  # collectives forward and backward
ONLY = "Send a token only to the ranks of its experts, without padding."
LEAST = 0.9  # of the bytes of the tokens whose experts are on other ranks


def _windows(found: Found, rank: int) -> list[list[Operation]] | None:
    """What a rank posted in each part of each step; None on real processes, where nobody marks them."""
    trace = found.result.trace
    if not trace.virtual:
        return None
    marks = sum(span.rank == rank and span.what == "compute" and not span.line for span in trace.spans)
    if marks != 4 * len(found.steps):
        what = f"rank {rank} called compute() from a hook, so the parts of a step cannot be told apart. Do not call it."
        raise found.lost("forbidden_call", what, rank)
    return checks.by_step(found.result, rank, marks)


def _parts(found: Found, part: int) -> Iterator[tuple[int, list[list[Operation]]]]:
    """Of each step, what every rank posted in one of its parts."""
    windows = [_windows(found, rank) for rank in range(found.n)]
    for step in found.steps:
        yield step, [mine[4 * step + part] for mine in windows if mine is not None]


def finish(found: Found) -> None:
    """At most a collective for each of the router's parameters."""
    if found.job.layers:
        return  # the parts of its steps are in another order
    for step, ranks in _parts(found, 2):
        for rank, posted in enumerate(ranks):
            called = _collectives(posted)
            if len(called) > 2:
                what = (
                    f"{found.when(step)}finish_gradient_sync() made {len(called)} collective calls on rank {rank}: "
                    f"{_quoted(found, called)}. The router has 2 parameters, so 2 are allowed."
                )
                raise found.lost("too_many_messages", what, rank, "at most 2", str(len(called)))


def messages(bench: RankBench, case: Case, found: Found) -> None:
    """At most 3 exchanges forward and 2 backward: a collective, or 2(N-1) messages that a rank sends."""
    each = max(1, 2 * (found.n - 1))
    _apart(found)
    _moved(found, 1)
    for part, most in enumerate(EXCHANGES):
        for step, ranks in _parts(found, part):
            for rank, posted in enumerate(ranks):
                called, sends = _collectives(posted), [op for op in posted if op.kind == SEND]
                made = len(called) + math.ceil(len(sends) / each)
                tally.note(f"exchanges {PARTS[part]}", made, most, "exchanges", where=case.label)
                if made <= most:
                    continue
                told = [f"made {says.counted(len(called), 'collective call')}"] * bool(called)
                told += [f"sent {says.counted(len(sends), 'message')}"] * bool(sends)
                what = (
                    f"{found.when(step)}rank {rank} {says.listed(told)} in the {PARTS[part]} pass: "
                    f"{_quoted(found, [*called, *sends])}. Allowed are {most} collectives, or {each} messages in place "
                    f"of one of them. {_too_many(part, found.layer)}"
                )
                raise found.lost("too_many_messages", what, rank, f"at most {most} exchanges", f"{made}")


def _too_many(part: int, layer: Layer) -> str:
    if part:
        return "The gradients go back the way that tokens and outputs came: the counts are known already."
    drops = "With the counts of all ranks, each rank can compute what is dropped without another exchange."
    said = "Exchange the counts of all choices at once, then the tokens of all choices, then the outputs."
    return said if layer.capacity is None else f"{said} {drops}"


def _collectives(posted: list[Operation]) -> list[Operation]:
    return [op for op in posted if op.collective and op.name != "new_group"]


def _quoted(found: Found, posted: list[Operation]) -> str:
    """ "2 x all_to_all_single (line 12: `...`), ...": each line once."""
    source = Source(found.bench.program.file, found.bench.program.source)
    lines = Counter(f"{op.name}{source.quote(op.line)}" for op in posted)
    return says.some([f"{many} x {line}" if many > 1 else line for line, many in lines.items()], 4)


def sent(bench: RankBench, case: Case, found: Found) -> None:
    """The bytes of all ranks together, in the forward and in the backward pass."""
    layer, n = found.layer, found.n
    _apart(found)
    _moved(found, 2)
    for part in range(2):
        for step, ranks in _parts(found, part):
            batch = found.job.batches[step]
            total = _total(found, ranks)
            row = moe.FEATURES * 4
            pairs = 2 * layer.k * batch.tokens * row
            allowed = pairs + 8 * layer.k * len(layer.experts) * n * n
            tally.note(f"bytes of all ranks {PARTS[part]}", total, allowed, "bytes", where=case.label)
            if total > allowed:
                what = (
                    f"{found.when(step)}all ranks together send {total:,} bytes in the {PARTS[part]} pass. Each of the "
                    f"{layer.k * batch.tokens} pairs of a token and an expert goes to its expert and back, "
                    f"{pairs:,} bytes, and counts may take {allowed - pairs:,} bytes more. "
                    f"{_sends_most(found, ranks)} {(not part and _long_rows(layer, batch, ranks)) or ONLY}"
                )
                raise found.lost("too_many_bytes", what, None, f"at most {allowed:,} bytes", f"{total:,} bytes")


def _long_rows(layer: Layer, batch: Batch, ranks: list[list[Operation]]) -> str:
    """Of a first exchange of values that takes a little more for every pair than a token has, on all ranks; empty if not."""
    rows = []
    for rank, posted in enumerate(ranks):
        first = next((op for op in posted if op.name.startswith("all_to_all") and op.dtype == "float32"), None)
        rows.append(first.size / max(1, layer.k * len(batch.x[rank])) if first else 0)
    row, pairs = moe.FEATURES * 4, layer.k * len(batch.x[0])
    if len(set(rows)) > 1 or not row < rows[0] < 2 * row:
        return ""
    return (
        f"In the exchange of the tokens, rank 0 sends {rows[0]:g} bytes for each of its {pairs} pairs, and the {moe.FEATURES} "
        f"features of a token take {row}. Send only the features, without padding. Counts for each expert tell which expert a "
        "row is for."
    )


def _apart(found: Found) -> None:
    if not found.result.trace.virtual:
        raise Unable("Not judged, because only simulated ranks tell a step's parts apart. Grade without --engine.")


def _moved(found: Found, parts: int) -> None:
    """Raise Lost where in the first `parts` less is sent than the tokens take whose experts are on other ranks."""
    layer, n = found.layer, found.n
    for part in range(parts):
        for step, ranks in _parts(found, part):
            away = _away(layer, found.job.batches[step])
            total, least = _total(found, ranks), LEAST * 2 * (n - 1) / n * moe.FEATURES * 4 * away
            if total < least:
                what = (
                    f"{found.when(step)}all ranks together send {total:,} bytes in the {PARTS[part]} pass, too few for "
                    f"the {away} tokens whose experts are on other ranks to go there and back. Move all data by "
                    "messages between the ranks."
                )
                raise found.lost("too_few_bytes", what, None, f"at least {least:,.0f} bytes", f"{total:,} bytes")


def _total(found: Found, ranks: list[list[Operation]]) -> int:
    return sum(_sent(found, op) for posted in ranks for op in posted)


def _sent(found: Found, op: Operation) -> int:
    """Bytes that an operation makes its rank send. How an all-to-all splits its rows is not recorded: a rank's own part is
    taken for as large as any other, but where no token stays on its rank all of it travels."""
    if found.job.away and op.collective and op.name.startswith("all_to_all"):
        return op.size
    return checks.sent_by(op, found.result.trace.groups.get(op.tag, ()))


def _away(layer: Layer, batch: Batch) -> int:
    """How many times a token must go to another rank: once for all its experts there."""
    routing = moe.route(layer, batch)
    targets = {
        (int(token), layer.owner(int(routing.chosen[token, choice]))) for token, choice in np.argwhere(routing.kept)
    }
    return sum(owner != batch.rank[token] for token, owner in targets)


def _sends_most(found: Found, ranks: list[list[Operation]]) -> str:
    """Which of the learner's lines sends most."""
    by_line: dict[tuple[str, int], int] = {}
    for op in (op for posted in ranks for op in posted):
        key = op.name, op.line
        by_line[key] = by_line.get(key, 0) + _sent(found, op)
    (name, line), most = max(by_line.items(), key=lambda each: each[1])
    source = Source(found.bench.program.file, found.bench.program.source)
    return f"Most of them, {most:,}, are sent by {name}{source.quote(line)}."
