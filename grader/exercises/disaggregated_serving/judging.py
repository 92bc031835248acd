"""Judges of disaggregated_serving: who computed what and how often, what was sent, and when."""

from __future__ import annotations

import itertools
from collections import Counter
from dataclasses import replace

from grader import tally
from grader.exercises.common import checks
from grader.exercises.disaggregated_serving.caches import why_too_many
from grader.exercises.disaggregated_serving.given import Given, Plan
from grader.exercises.disaggregated_serving.served import NANOSECONDS, WRONG, Served, raced, served
from grader.lost import Lost
from grader.ranks.program import CallResult
from grader.says import counted, listed, names
from grader.trace.events import SEND, Operation
from grader.worlds.cases import Case
from grader.worlds.ranks import Outcome, RankBench

HEADERS = 256  # bytes for each request and layer, for everything that is no cache
LATE = 1.05  # of the time at which decoding may begin
ABOUT = ("wrong_result", "lost_or_duplicated")  # what the check of tokens is about
IDLE = 1.1  # of the time that a prefiller computes


# ---- who does what


def balance(*groups: str) -> checks.Judge:
    """Each request is prefilled and decoded once, and the numbers of requests differ by at most one."""

    def judge(bench: RankBench) -> Outcome:
        for case, _, found in checks.right_ones(served, bench, groups, WRONG, ABOUT):
            _prefilled_once(bench, case, found)
            _decoded_once(bench, case, found)
            plan: Plan = case.expected.plan
            began = Counter(rank for rank, _ in {(each.rank, each.request) for each in found.prefills})
            _even(bench, case, "prefiller", {rank: began[rank] for rank in plan.prefilling})
            _even(bench, case, "decoder", {rank: len(tokens) for rank, tokens in found.returned.items()})
        return bench.picture(groups[0])

    return judge


def _prefilled_once(bench: RankBench, case: Case, found: Served) -> None:
    """Raise Lost unless each layer of each request was computed once."""
    given: Given = case.expected
    times = Counter((each.request, each.layer) for each in found.prefills)
    for request in given.requests:
        for layer in range(given.plan.layers):
            many = times[request, layer]
            if many == 1:
                continue
            ranks = sorted({each.rank for each in found.prefills if each.request == request})
            if many > 1:
                who = f"rank {ranks[0]}" if len(ranks) == 1 else f"ranks {listed(ranks)}"
                message = (
                    f"With {case.label}: layer {layer} of request {request} was prefilled {many} times, by {who}. Every "
                    "prefiller gets all requests. Divide them, so that each is prefilled once."
                )
                raise bench.lost(case, "lost_or_duplicated", message, ranks[-1], "once", f"{many} times")
            message = (
                f"With {case.label}: layer {layer} of request {request} took no time on any prefiller. Get its cache "
                "from model.prefill_layer()."
            )
            raise bench.lost(case, "sandbox_violation", message, None, "once", "never")


def _decoded_once(bench: RankBench, case: Case, found: Served) -> None:
    """Raise Lost unless each request was decoded once, by the rank that returned it."""
    given: Given = case.expected
    for request in given.requests:
        ranks = [each.rank for each in found.decodes if each.request == request]
        owner = found.owner(request)
        if ranks == [owner]:
            continue
        if owner in ranks:
            message = (
                f"With {case.label}: request {request} was decoded {len(ranks)} times, by {names(sorted({*ranks}))}. "
                "Call model.decode() once for each request."
            )
            raise bench.lost(case, "lost_or_duplicated", message, ranks[-1], "once", f"{len(ranks)} times")
        message = (
            f"With {case.label}: rank {owner} returned request {request}, but model.decode() took no time there. Get the "
            "tokens from model.decode()."
        )
        raise bench.lost(case, "sandbox_violation", message, owner, "once", "never")


def _even(bench: RankBench, case: Case, what: str, numbers: dict[int, int]) -> None:
    """Raise Lost where two ranks' numbers of requests differ by more than one."""
    most, least = max(numbers, key=lambda rank: numbers[rank]), min(numbers, key=lambda rank: numbers[rank])
    if numbers[most] - numbers[least] <= 1:
        return
    plan: Plan = case.expected.plan
    after = f" After rank {plan.killed} has died, this holds for the others." if plan.killed >= 0 else ""
    message = (
        f"With {case.label}: rank {most} has {counted(numbers[most], 'request')} and rank {least} has "
        f"{numbers[least]}. The {what}s' numbers of requests may differ by at most one.{after} Give the next request "
        f"to a {what} that has the fewest."
    )
    raise bench.lost(case, "too_slow", message, most, "a difference of at most 1", str(numbers))


# ---- what is sent


@checks.judged(served, "bytes", WRONG)
def sizes(bench: RankBench, case: Case, result: CallResult, found: Served) -> None:
    """All ranks together send the caches once, and little else."""
    given: Given = case.expected
    _sent(bench, case, result, found, HEADERS * given.plan.layers * len(given.requests))


def _sent(bench: RankBench, case: Case, result: CallResult, found: Served, more: int) -> None:
    """Raise Lost where more than the caches and `more` bytes was sent; what went to a dead rank is not counted."""
    given: Given = case.expected
    plan = given.plan
    sends = [op for op in result.trace.all_operations() if op.kind == SEND and op.peer != plan.killed]
    took, most = sum(op.size for op in sends), given.all_bytes + more
    tally.note("bytes sent", took, most, "B", where=case.label, reference=given.all_bytes, of="the caches alone")
    if took <= most:
        return
    excess = {}
    for rank in plan.living:
        own = sum(given.requests[request].cache_bytes * plan.layers for request in found.returned[rank])
        excess[rank] = sum(op.size for op in sends if op.peer == rank) - own
    worst = max(excess, key=lambda rank: excess[rank])
    came = sum(op.size for op in sends if op.peer == worst)
    if excess[worst] > more / plan.decoders:
        large = [op.size for op in sends if op.peer == worst and op.size > HEADERS]
        caches = [given.requests[each].cache_bytes for each in found.returned[worst] for _ in range(plan.layers)]
        why = (
            f"Rank {worst} was sent {came:,} bytes, but the caches that it decoded from are {came - excess[worst]:,} "
            f"bytes. {why_too_many(large, caches)}"
        )
    else:
        other = sum(op.size for op in sends if op.peer in plan.prefilling)
        why = f"{other:,} bytes went to prefillers. Nobody but its decoder needs a cache."
    but = f", without what rank {plan.killed} was sent before it died" if plan.killed >= 0 else ""
    message = (
        f"With {case.label}: all ranks together sent {took:,} bytes{but}. The caches of all requests are "
        f"{given.all_bytes:,} bytes, and {more:,} bytes more are allowed. {why}"
    )
    raise bench.lost(case, "too_many_bytes", message, worst, f"at most {most:,} bytes", f"{took:,} bytes")


# ---- when


@checks.judged(served, "overlap", WRONG)
def overlap(bench: RankBench, case: Case, result: CallResult, found: Served) -> None:
    """Each request begins to be decoded when it is prefilled and its last layer's cache has come."""
    given: Given = case.expected
    plan = given.plan
    _prefilled_once(bench, case, found)
    _decoded_once(bench, case, found)
    for request, each in given.requests.items():
        computing = plan.layers * plan.layer * len(each.prompt)
        transfer = case.network.cost(0, 1, each.cache_bytes)
        most = LATE * (computing + transfer)
        rank = found.owner(request)
        began = next(one.since for one in found.decodes if one.request == request)
        whole = computing + plan.layers * transfer
        tally.note("model.decode() begins", 1e3 * began, 1e3 * most, "ms", where=case.label,
                   reference=1e3 * whole, of="without overlap")  # fmt: skip
        if began <= most:
            continue
        why, line = _held_up(case, result, found, request, rank)
        message = (
            f"With {case.label}: model.decode({request}, ...) begins at {_ms(began)} on rank {rank}. All "
            f"{plan.layers} layers take {_ms(computing)} to prefill, and one layer's cache takes {_ms(transfer)} to "
            f"send, so it can begin at {_ms(computing + transfer)}. {why}"
        )
        raise _at(bench.lost(case, "no_overlap", message, rank, f"at most {_ms(most)}", _ms(began)), line)


def _held_up(case: Case, result: CallResult, found: Served, request: int, rank: int) -> tuple[str, int]:
    """What the first decoding of a request waited for, and the line it is about (0: none)."""
    given: Given = case.expected
    mine = [each for each in found.prefills if each.request == request]
    layers = {each.layer: each for each in mine}
    source, last = mine[0].rank, layers[max(layers)]
    before = found.decoded_by(rank)
    if before[0] != request:
        return f"Rank {rank} decodes request {before[0]} first. Give each decoder one of these requests.", 0
    if mine[0].since > given.plan.layer:
        return f"Rank {source} begins to prefill it only at {_ms(mine[0].since)}.", 0
    size = given.requests[request].cache_bytes
    sends = [op for op in result.trace.operations(source) if op.kind == SEND and op.peer == rank and op.size > HEADERS]
    first = next(iter(sends), None)
    if first is None:
        return (
            f"Rank {source} prefilled it, but did not send its caches to rank {rank} itself. Send them straight there.",
            0,
        )
    if first.posted / NANOSECONDS >= last.until:
        return (
            f"Rank {source} had the cache of layer 0 at {_ms(layers[0].until)}, but sent it only at "
            f"{_ms(first.posted / NANOSECONDS)}, after the last layer. Send each layer's cache as soon as "
            "prefill_layer() returns it.",
            first.line,
        )
    for one, other in itertools.pairwise(sorted(mine, key=lambda each: each.layer)):
        if other.since - one.until > 0.02 * given.plan.layer * len(given.requests[request].prompt):
            told, line = _waited_for(result, source, one.until, other.since)
            return (
                f"Rank {source} computed layer {one.layer} until {_ms(one.until)} and began layer {other.layer} only "
                f"at {_ms(other.since)}. {told}Send with isend, compute the next layer, and wait for the send later.",
                line,
            )
    late = max(sends, key=lambda op: op.posted)
    if late.size > size:
        return (
            f"Rank {source} sent {late.size:,} bytes in one message, and the cache of a layer has {size:,} bytes. Send each "
            "layer's float32 cache by itself, as soon as prefill_layer() returns it.",
            late.line,
        )
    if late.started >= 0 and late.started > late.posted + 1e-3 * NANOSECONDS:
        return (
            f"Rank {source} posted its last send to rank {rank} at {_ms(late.posted / NANOSECONDS)}, but it began to "
            f"move only at {_ms(late.started / NANOSECONDS)}. Post the receives of all layers early, and send each "
            "layer as soon as it is there.",
            late.line,
        )
    return f"Its last layer was ready at {_ms(last.until)}.", 0


def _waited_for(result: CallResult, rank: int, since: float, until: float) -> tuple[str, int]:
    """Which operation a rank waited for in a stretch of time, as a sentence, and the line where it waited."""
    waits = [
        op
        for op in result.trace.operations(rank)
        if op.waited >= 0 and op.waited < until * NANOSECONDS - 1 and op.resumed > since * NANOSECONDS + 1
    ]
    if not waits:
        return "", 0
    longest: Operation = max(waits, key=lambda op: op.resumed - op.waited)
    what = f"its {longest.name} to rank {longest.peer}" if longest.kind == SEND else f"a {longest.name}"
    return f"It waited for {what} until {_ms(longest.resumed / NANOSECONDS)}. ", longest.wait_line or longest.line


def _ms(seconds: float) -> str:
    return f"{1e3 * seconds:,.0f} ms" if seconds >= 1 else f"{1e3 * seconds:.4g} ms"


def _at(loss: Lost, line: int) -> Lost:
    """A loss that is about one of the learner's lines."""
    return Lost(replace(loss.diagnosis, line=line or None), loss.picture)


@checks.judged(served, "busy", WRONG)
def busy(bench: RankBench, case: Case, result: CallResult, found: Served) -> None:
    """Requests of other decoders are prefilled as if no decoder were busy: prefillers do not wait in between."""
    given: Given = case.expected
    plan = given.plan
    _prefilled_once(bench, case, found)
    slow = plan.prefillers + max(range(plan.decoders), key=lambda place: plan.decode[place])
    for rank in plan.prefilling:
        mine = [each for each in found.prefills if each.rank == rank]
        others = [place for place, each in enumerate(mine) if found.owner(each.request) != slow]
        if not others:
            continue
        upto = mine[: others[-1] + 1]
        work, ended = sum(each.until - each.since for each in upto), upto[-1].until
        tally.note(
            "the last prefill of the others' requests ends", 1e3 * ended, 1e3 * IDLE * work, "ms", where=case.label
        )
        if ended <= IDLE * work:
            continue
        begins = [0.0, *(each.until for each in upto)]
        gaps = [(each.since - before, before, each) for before, each in zip(begins, upto, strict=False)]
        _, before, after = max(gaps, key=lambda gap: gap[0])
        told, line = _waited_for(result, rank, before, after.since)
        decoding = next(
            (d for d in found.decodes if d.rank == slow and d.since < after.since and d.until > before), None
        )
        doing = (
            f"Rank {slow} decoded request {decoding.request} until {_ms(decoding.until)} meanwhile. "
            if decoding
            else ""
        )
        message = (
            f"With {case.label}: rank {rank} computed nothing from {_ms(before)} to {_ms(after.since)}, before layer "
            f"{after.layer} of request {after.request}, which belongs to rank {found.owner(after.request)}. {told}"
            f"{doing}Begin the next request when the last one is computed. Wait for sends later."
        )
        loss = bench.lost(case, "too_slow", message, rank, f"at most {_ms(IDLE * work)}", _ms(ended))
        raise _at(loss, line)


# ---- after a death


def shared_out(*groups: str) -> checks.Judge:
    """The requests of the dead are spread evenly, prefilled at most once more, and nothing else is sent again."""
    return checks.where_right(served, groups, _shared_out, "the tokens are wrong wherever a decoder dies", ABOUT)


def _shared_out(bench: RankBench, case: Case, result: CallResult, found: Served) -> None:
    given: Given = case.expected
    plan = given.plan
    _even(bench, case, "decoder", {rank: len(tokens) for rank, tokens in found.returned.items()})
    share = -(-len(given.requests) // plan.decoders)
    times = Counter(each.request for each in found.prefills if each.layer == 0)
    again = sum(many - 1 for many in times.values())
    if again > share:
        most, many = max(times.items(), key=lambda item: item[1])
        by = names(sorted({each.rank for each in found.prefills if each.request == most}))
        message = (
            f"With {case.label}: request {most} was prefilled {many} times, by {by}. Let one prefiller prefill each "
            f"request. After the death of rank {plan.killed}, let one prefiller prefill again what rank {plan.killed} had."
            if many > 2
            else f"With {case.label}: prefillers prefilled {counted(again, 'request')} again. Rank {plan.killed} had at "
            f"most {counted(share, 'request')}. Every other request keeps its decoder and its caches: do not do it again."
        )
        raise bench.lost(case, "too_slow", message, None, f"at most {share}", str(again))
    _sent(bench, case, result, found, HEADERS * plan.layers * (len(given.requests) + share))


# ---- requests


def waited(*groups: str) -> checks.Judge:
    """Every request is waited for, or has failed."""
    return checks.where_right(served, groups, _waited, WRONG, ABOUT)


def _waited(bench: RankBench, case: Case, result: CallResult, _: Served) -> None:
    if found := raced(case, result):
        raise Lost(found[0], bench.outcome(case))
