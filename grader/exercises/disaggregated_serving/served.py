"""What ranks did in one case: the tokens that decoders returned, the caches they decoded from, and when ranks computed.

`served` yields the cases in which every request has its tokens, once; what is wrong there it says.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from grader.exercises.common import checks, plain
from grader.exercises.disaggregated_serving.caches import near, what
from grader.exercises.disaggregated_serving.given import Array, Given, Plan, Request
from grader.lost import Lost
from grader.ranks.program import CallResult, Strided
from grader.says import counted, listed, names
from grader.trace.events import Trace
from grader.verdict import Diagnosis
from grader.worlds.cases import Case
from grader.worlds.ranks import RankBench

NANOSECONDS = 1e9
WRONG = "the tokens are wrong"  # why a check about something else does not judge
ASKED = "As you asked, "
_PASS = re.compile(r"P(\d+)L(\d+)|D(\d+)")


@dataclass(frozen=True)
class Pass:
    """A layer of a prompt, or with layer -1 the decoding of a request. Times in virtual seconds."""

    rank: int
    request: int
    layer: int
    since: float
    until: float


@dataclass(frozen=True)
class Served:
    """One case. `returned` has the tokens of each living decoder by request, `seen` the requests and caches that each
    gave to model.decode(), in order. A decoder that was killed is in neither, but its passes are there."""

    returned: dict[int, dict[int, tuple[int, ...]]]
    seen: dict[int, list[tuple[int, list[Array]]]]
    prefills: list[Pass]
    decodes: list[Pass]

    def owner(self, request: int) -> int:
        """The decoder that returned a request."""
        return next(rank for rank, tokens in self.returned.items() if request in tokens)

    def decoded_by(self, rank: int) -> list[int]:
        """The requests that a rank began to decode, in order."""
        return [each.request for each in self.decodes if each.rank == rank]


def served(bench: RankBench, group: str) -> Iterator[tuple[Case, CallResult, Served]]:
    """The finished calls of `group` in which each request's tokens are right, and returned once by a living decoder.

    Raises Lost at the first other one.
    """
    try:
        for case, result in bench.calls(group):
            checks.allowed(bench, case, result)
            try:
                found = _found(bench, case, result)
                _killed_there(bench, case, found)
                _caches(bench, case, result, found)
                _each_once(bench, case, found)
                _tokens(bench, case, found)
                _arrived(bench, case, result, found)
            except Lost as loss:
                if loss.diagnosis.kind == "wrong_result":
                    checks.undisturbed(bench, case, replace(result, diagnoses=raced(case, result)))
                raise
            yield case, result, found
    except Lost as loss:
        raise _of_a_death(loss) from None


def raced(case: Case, result: CallResult) -> tuple[Diagnosis, ...]:
    """What was noticed of buffers and requests. A request to or from a rank that died has failed: nobody need wait."""
    plan: Plan = case.expected.plan
    gone = re.compile(rf"returned without waiting for its (isend to|irecv from) rank {plan.killed}\b")
    found = [each for each in result.diagnoses if not each.message.startswith(ASKED)]
    return tuple(each for each in found if plan.killed < 0 or not gone.search(each.message))


def _of_a_death(loss: Lost) -> Lost:
    """A run that a kill ended says what was done, and what is to be done."""
    if not loss.diagnosis.message.startswith(ASKED) or loss.picture is None:
        return loss
    case: Case = loss.picture.case
    plan: Plan = case.expected.plan
    after = loss.diagnosis.message.removeprefix(ASKED).split(". ", 1)[-1]
    told = f"With {case.label}: rank {plan.killed} was killed inside its model.decode() number {plan.during}. {after}"
    if "PeerGone" in after:
        dead = f"rank {plan.killed}"
        advice = (
            f" From {dead}'s death on, a receive from {dead}, a send to {dead} and a wait on such a request raise "
            "RuntimeError. So does each rank's next receive from any source, once. Catch the error, and have living "
            f"decoders decode all requests of {dead}."
        )
    elif " raised " in after:
        advice = " This happens only where a decoder dies."
    else:
        advice = (
            f"{_decoded_by_then(case, loss.picture.trace)} Ranks may return only when living ranks have decoded all "
            "requests, and nobody still sends to them or waits for them."
        )
    return Lost(replace(loss.diagnosis, message=told + advice), loss.picture)


def _decoded_by_then(case: Case, trace: Trace) -> str:
    """Which requests living decoders had decoded when a run ended badly, and what to look for."""
    given: Given = case.expected
    done = {each.request for each in _passes(given, trace) if each.layer < 0 and each.rank in given.plan.living}
    left = [request for request in given.requests if request not in done]
    if trace.virtual and not left:
        return (
            f" Living decoders had decoded all {len(done)} requests by then. Check how each rank learns that, and whether "
            "it still knows it after it has heard of the death."
        )
    look = " Find out who should have sent the message that each of these ranks waits for."
    return (
        f" No living decoder had decoded request{'s' * (len(left) > 1)} {listed(left)}.{look}"
        if trace.virtual
        else look
    )


# ---- reading


def _found(bench: RankBench, case: Case, result: CallResult) -> Served:
    plan: Plan = case.expected.plan
    returned: dict[int, dict[int, tuple[int, ...]]] = {}
    seen = {}
    for rank in plan.living:
        pairs, kind = checks.field(result, rank, "pairs"), checks.field(result, rank, "type")
        if not isinstance(pairs, list):
            got = "None" if kind == "NoneType" else f"a value of type {str(kind)[:40]}"
            message = (
                f"With {case.label}: decode() returned {got} on rank {rank}. Return a dict with the tokens of each "
                "request that this rank decoded: {request_id: tokens}."
            )
            raise bench.lost(case, "wrong_result", message, rank, "a dict", got)
        returned[rank] = {}
        for pair in pairs:
            request = _id(bench, case, rank, pair)
            returned[rank][request] = _listed(bench, case, rank, request, pair[1])
        seen[rank] = _seen(checks.field(result, rank, "seen"))
    passes = _passes(case.expected, result.trace)
    prefills = [each for each in passes if each.layer >= 0 and each.rank in plan.prefilling]
    decodes = [each for each in passes if each.layer < 0 and each.rank in plan.decoding]
    return Served(returned, seen, prefills, decodes)


def _passes(given: Given, trace: Trace) -> list[Pass]:
    """When ranks computed, in order."""
    passes = []
    for span in trace.spans:
        name = _PASS.fullmatch(span.name)
        if name is not None and span.what == "compute":
            request, layer = (int(name[1]), int(name[2])) if name[1] else (int(name[3]), -1)
            one = Pass(span.rank, request, layer, span.since / NANOSECONDS, span.until / NANOSECONDS)
            passes += [one] if _long_enough(given, one) else []
    return sorted(passes, key=lambda each: (each.since, each.until))


def _long_enough(given: Given, each: Pass) -> bool:
    """Whether a pass took as long as the model's do: whoever may call compute() may give it any name."""
    plan, took = given.plan, each.until - each.since
    if each.layer >= 0:
        request = given.requests.get(each.request)
        return request is not None and took >= 0.99 * plan.layer * len(request.prompt)
    if each.rank not in plan.decoding:
        return False
    whole = plan.decode[each.rank - plan.prefillers]
    return took >= 0.99 * (whole / 2 if each.rank == plan.killed else whole)


def _id(bench: RankBench, case: Case, rank: int, pair: Any) -> int:
    """The key of what a decoder returned. Raises Lost for one that is no request's."""
    given: Given = case.expected
    key = pair[0] if isinstance(pair, list) and len(pair) == 2 else None
    number = plain.number(key)
    if number is None or number not in given.requests:
        message = (
            f"With {case.label}: rank {rank} returned a dict with the key {plain.in_words(key)}, and no request has "
            "this id. The keys are request ids, as ints."
        )
        raise bench.lost(case, "wrong_result", message, rank, "request ids", plain.in_words(key))
    return int(number)


def _listed(bench: RankBench, case: Case, rank: int, request: int, tokens: Any) -> tuple[int, ...]:
    """The tokens that a decoder returned for a request. Raises Lost for what is no list of whole numbers."""
    found = [plain.number(each) for each in tokens] if isinstance(tokens, list) else [None]
    whole = [int(each) for each in found if each is not None and each == each // 1]
    if len(whole) < len(found):
        got = plain.in_words(tokens)
        message = (
            f"With {case.label}: rank {rank} returned {got} for request {request}. Return the list of ints that "
            f"model.decode({request}, caches) returned, unchanged."
        )
        raise bench.lost(case, "wrong_result", message, rank, "a list of ints", got)
    return tuple(whole)


def _seen(told: Any) -> list[tuple[int, list[Array]]]:
    """The requests that a rank decoded, with the caches it did so from."""
    found = []
    for each in told if isinstance(told, list) else []:
        request, caches = each if isinstance(each, list) and len(each) == 2 else (None, None)
        number = plain.number(request)
        if number is not None and isinstance(caches, list) and all(isinstance(cache, Strided) for cache in caches):
            found.append((int(number), [cache.view().astype(np.float64) for cache in caches]))
    return found


# ---- judging


def _killed_there(bench: RankBench, case: Case, found: Served) -> None:
    """Raise Lost where the rank that was to be killed has lived on, because it never decoded as much."""
    plan: Plan = case.expected.plan
    if plan.killed < 0:
        return
    began = len(found.decoded_by(plan.killed))
    if began < plan.during:
        share = len(plan.lengths) // plan.decoders
        message = (
            f"With {case.label}: rank {plan.killed} was to die inside its model.decode() number {plan.during}, but it "
            f"called model.decode() only {counted(began, 'time')}. {len(plan.lengths)} requests on {plan.decoders} "
            f"decoders are {share} each. Before the death, the decoders' numbers of requests differ by at most one."
        )
        raise bench.lost(case, "wrong_result", message, plan.killed, counted(share, "request"), str(began))


def _caches(bench: RankBench, case: Case, result: CallResult, found: Served) -> None:
    """Raise Lost at the first cache that a living decoder decoded from and that is not the one of that layer."""
    given: Given = case.expected
    for rank, decoded in found.seen.items():
        for request, caches in decoded:
            right = given.requests.get(request)
            if right is None:
                continue
            wrong = [i for i, (got, own) in enumerate(zip(caches, right.caches, strict=False)) if not near(got, own)]
            if wrong:
                many = f"caches of layers {listed(wrong)} are" if len(wrong) > 1 else f"cache of layer {wrong[0]} is"
                told = _open_receives(result, found, rank, request, right) or what(given, request, wrong, caches)
                message = f"With {case.label}: rank {rank} called model.decode({request}, caches), and the {many} wrong. {told}"
                raise bench.lost(case, "wrong_result", message, rank, "the values of prefill_layer()", "others")


def _open_receives(result: CallResult, found: Served, rank: int, request: int, right: Request) -> str:
    """What is said where receives of such a cache were open when a rank decoded: what the buffers held is luck."""
    began = next((each.since for each in found.decodes if (each.rank, each.request) == (rank, request)), -1.0)
    receives = [op for op in result.trace.operations(rank) if op.receives and op.size == right.cache_bytes]
    early = [
        op
        for op in receives
        if op.posted <= began * NANOSECONDS and (op.waited < 0 or op.waited >= began * NANOSECONDS)
    ]
    if not early:
        return ""
    return (
        f"When it did, it had not waited for {counted(len(early), 'receive')} of such a cache. The buffers may hold "
        "anything until wait() returns. Wait for the receives of all layers first."
    )


def _each_once(bench: RankBench, case: Case, found: Served) -> None:
    """Raise Lost unless each request is returned by one living decoder, which has decoded it."""
    given: Given = case.expected
    plan, dead = given.plan, given.plan.killed
    for request in given.requests:
        owners = [rank for rank, tokens in found.returned.items() if request in tokens]
        decoders = [rank for rank in plan.decoding if request in found.decoded_by(rank)] or [
            rank for rank, decoded in found.seen.items() if any(each == request for each, _ in decoded)
        ]
        by = f"rank {dead}, which was killed" if decoders == [dead] else names(decoders)
        if len(owners) > 1:
            message = (
                f"With {case.label}: the tokens of request {request} were returned by ranks {listed(owners)}. Each "
                "request belongs to exactly one living decoder."
            )
            raise bench.lost(case, "lost_or_duplicated", message, owners[1], "one rank", f"{len(owners)} ranks")
        if not owners:
            why = f"It was decoded by {by}. " if decoders else "No rank called model.decode() for it. "
            why += (
                "A dead rank returns nothing, so have living decoders decode all its requests again, also those that it "
                "had finished."
                if dead >= 0 and (dead in decoders or not decoders)
                else "Return the tokens of every request that a rank decoded."
                if decoders
                else "Send its caches to a decoder, and let decode() return only when all requests are decoded."
            )
            message = f"With {case.label}: no living decoder returned the tokens of request {request}. {why}"
            raise bench.lost(case, "lost_or_duplicated", message, None, "one rank", "none")
        if owners[0] not in decoders:
            message = (
                f"With {case.label}: rank {owners[0]} returned tokens of request {request}, but did not call "
                f"model.decode() for it. {f'It was decoded by {by}. ' if decoders else ''}Return only what this rank "
                "decoded itself."
            )
            raise bench.lost(case, "wrong_result", message, owners[0], "its own requests", f"request {request}")


def _tokens(bench: RankBench, case: Case, found: Served) -> None:
    """Raise Lost at the first request with other tokens than those of the model alone."""
    given: Given = case.expected
    for rank, requests in found.returned.items():
        for request, tokens in requests.items():
            right = given.requests[request].tokens
            if tokens == right:
                continue
            other = next((one for one, each in given.requests.items() if each.tokens == tokens), None)
            why = (
                f"These are the tokens of request {other}. "
                if other is not None
                else f"These are only the first {len(tokens)} of {len(right)} tokens. "
                if tokens == right[: len(tokens)]
                else ""
            )
            message = (
                f"With {case.label}: rank {rank} returned {_few(tokens)} for request {request} instead of "
                f"{_few(right)}. {why}Its caches were right. Return the list that model.decode({request}, caches) "
                "returned, unchanged."
            )
            raise bench.lost(case, "wrong_result", message, rank, _few(right), _few(tokens))


def _few(tokens: tuple[int, ...]) -> str:
    return str(list(tokens[:8])) if len(tokens) <= 8 else f"{list(tokens[:8])} and {len(tokens) - 8} more"


def _arrived(bench: RankBench, case: Case, result: CallResult, found: Served) -> None:
    """Raise Lost where a decoder decoded before it was sent as much as the caches are, or without it."""
    given: Given = case.expected
    came: dict[int, list[tuple[int, int]]] = {rank: [] for rank in given.plan.decoding}
    for send, receive in result.trace.messages:
        if receive.rank in came and receive.done:
            came[receive.rank].append((receive.resumed, send.size))
    for rank, requests in found.returned.items():
        began = dict.fromkeys(requests, math.inf)
        for each in reversed(found.decodes if result.trace.virtual else []):
            if each.rank == rank and each.request in requests:
                began[each.request] = each.since * NANOSECONDS + 1  # at first
        least = 0
        for request, until in sorted(began.items(), key=lambda pair: pair[1]):
            least += given.requests[request].cache_bytes * given.plan.layers
            there = sum(size for when, size in came[rank] if when <= until)
            if there < least:
                message = (
                    f"With {case.label}: rank {rank} had received {there:,} bytes when it decoded request {request}, but "
                    f"the caches that it had decoded from by then are {least:,} bytes. A decoder may learn caches from "
                    "messages only."
                )
                raise bench.lost(case, "sandbox_violation", message, rank, f"{least:,} bytes", f"{there:,} bytes")
