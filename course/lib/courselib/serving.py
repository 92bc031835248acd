"""A language model's server in virtual time: one trace of requests under different schedulers.

    run = serve(trace(rate=8, requests=200), CHUNKED, seconds_of)
    run.ttft(0.99), run.tpot(0.5), run.gap(0.99), run.picture("...", until=2.0)

No model runs: a step takes `seconds_of(new tokens, cached positions that are read)`.
"""

from __future__ import annotations

import math
import random
from collections import Counter, defaultdict, deque
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from itertools import pairwise

from courselib.svg import Plot
from courselib.timeline import Box, timeline

READS, WRITES, EMPTY = "reads its prompt", "writes tokens", "has ended, keeps its place"
LONGEST = 8192  # tokens of a prompt


@dataclass(frozen=True)
class Request:
    """When it comes, in seconds; tokens of its prompt and of its answer; whose it is; tokens that the cache has."""

    came: float
    prompt: int
    answer: int
    tenant: str = ""
    cached: int = 0


@dataclass(frozen=True)
class Rule:
    """How a server makes its batches.

    `slots`: sequences at a time. `static`: a batch ends as a whole. `budget`: new tokens of a step at most, prompts are
    cut where it ends; 0: prompts are read whole. `room`: positions that the cache holds. `reserve`: a request comes in
    only if its prompt and its longest answer (`limit` tokens) have room, otherwise as soon as its prompt has; then the
    youngest is preempted where the cache is full, and computed anew. `fair`: the tenant that was served least is next.
    """

    name: str
    slots: int = 64
    static: bool = False
    budget: int = 0
    room: float = math.inf
    reserve: bool = False
    limit: int = 1024
    fair: bool = False


STATIC = Rule("static batches", static=True)
CONTINUOUS = Rule("continuous, whole prompts")
CHUNKED = Rule("continuous, chunked prompts", budget=512)


@dataclass
class _State:
    request: Request
    number: int
    slot: int = -1
    read: int = 0  # positions in the cache
    times: list[float] = field(default_factory=list)  # of its tokens

    @property
    def needs(self) -> int:
        """Tokens that must be in the cache before the next one can be made: the prompt and its own so far."""
        return self.request.prompt + len(self.times)

    @property
    def ended(self) -> bool:
        return len(self.times) >= self.request.answer


@dataclass(frozen=True)
class Run:
    """What became of the requests: the times of each one's tokens, in seconds, and what each slot did."""

    requests: Sequence[Request]
    times: Sequence[Sequence[float]]
    boxes: Sequence[tuple[int, float, float, int, str]]  # slot, since, until, request, what
    running: Sequence[tuple[float, int, float]]  # of each step: when it began, sequences in it, positions in the cache
    preempted: int
    rows: tuple[float, float]  # seconds times sequences in the batch: those that make progress, and all

    @property
    def seconds(self) -> float:
        """From the first request to the last token."""
        return max(times[-1] for times in self.times) - self.requests[0].came

    @property
    def rate(self) -> float:
        """Tokens a second."""
        return sum(map(len, self.times)) / self.seconds

    @property
    def occupancy(self) -> float:
        """The share of the batch that makes progress, on average over time: the others have ended, or wait in it."""
        return self.rows[0] / self.rows[1]

    def ttft(self, share: float, tenant: str = "") -> float:
        """The time to the first token that this share of the requests (of a tenant) did not exceed."""
        return percentile(self._firsts(tenant), share)

    def _firsts(self, tenant: str) -> list[float]:
        both = zip(self.requests, self.times, strict=True)
        return [times[0] - each.came for each, times in both if not tenant or each.tenant == tenant]

    def tpot(self, share: float) -> float:
        """The time per output token after the first, of this share of the requests at most."""
        return percentile([_a_token(times) for times in self.times if len(times) > 1], share)

    def gap(self, share: float) -> float:
        """The time between two tokens of a request that this share of all such times did not exceed."""
        pairs = [(a, b) for times in self.times for a, b in pairwise(times)]
        return percentile([b - a for a, b in pairs], share)

    def good(self, first: float, each: float) -> float:
        """Requests a second that keep both goals: `first` seconds to the first token, `each` per token after it."""
        both = zip(self.requests, self.times, strict=True)
        kept = sum(times[0] - one.came <= first and _a_token(times) <= each for one, times in both)
        return kept / self.seconds

    def picture(self, title: str, until: float) -> Plot:
        """What each slot did up to this time; numbers are those of the requests."""
        rows: dict[str, list[Box]] = defaultdict(list)
        for slot, since, to, number, what in sorted(self.boxes):
            if since < until:
                label = str(number) if what == READS else ""
                rows[f"slot {slot}"].append((since, min(to, until), label, what))
        return timeline(title, rows, until=until, kinds=(READS, WRITES, EMPTY))


def percentile(values: Iterable[float], share: float) -> float:
    """The smallest of the values that this share of them does not exceed. Raises ValueError without any."""
    ordered = sorted(values)
    if not ordered:
        raise ValueError("there are no values")
    return ordered[min(len(ordered) - 1, max(0, math.ceil(share * len(ordered)) - 1))]


def _a_token(times: Sequence[float]) -> float:
    return (times[-1] - times[0]) / max(1, len(times) - 1)


def trace(
    rate: float, requests: int, prompt: int = 1000, answer: int = 200, seed: int = 1, tenant: str = ""
) -> list[Request]:
    """Requests that come at random, `rate` a second (Poisson), with sizes of these medians (lognormal, sigma 0.8)."""
    source, now, made = random.Random(seed), 0.0, list[Request]()
    for _ in range(requests):
        now += source.expovariate(rate)
        sizes = [max(1, int(median * source.lognormvariate(0, 0.8))) for median in (prompt, answer)]
        made.append(Request(now, min(sizes[0], LONGEST), min(sizes[1], 1024), tenant))
    return made


def serve(requests: Sequence[Request], rule: Rule, seconds_of: Callable[[int, float], float]) -> Run:
    """The trace under a rule. Raises ValueError for a request that the cache can never hold."""
    for each in requests:
        if (each.prompt + max(each.answer, rule.limit if rule.reserve else 0)) > rule.room:
            raise ValueError(f"a request of {each.prompt} and {each.answer} tokens does not fit into {rule.room:g}")
    return _Server(requests, rule, seconds_of).run()


class _Server:
    def __init__(self, requests: Sequence[Request], rule: Rule, seconds_of: Callable[[int, float], float]) -> None:
        self.rule, self.seconds_of = rule, seconds_of
        ordered = sorted(requests, key=lambda one: one.came)
        self.all = [_State(each, number, read=each.cached) for number, each in enumerate(ordered)]
        self.coming, self.waiting, self.running = deque(self.all), list[_State](), list[_State]()
        self.now, self.preempted, self.served = 0.0, 0, Counter[str]()
        self.boxes: list[tuple[int, float, float, int, str]] = []
        self.last: dict[int, int] = {}  # of each slot the number of its last box
        self.steps: list[tuple[float, int, float]] = []
        self.useful = self.whole = 0.0

    def run(self) -> Run:
        while self.coming or self.waiting or self.running:
            if not self.running and not self.waiting:
                self.now = max(self.now, self.coming[0].request.came)
            while self.coming and self.coming[0].request.came <= self.now:
                self.waiting.append(self.coming.popleft())
            self._admit()
            self._step()
        requests, times = [each.request for each in self.all], [each.times for each in self.all]
        return Run(requests, times, self.boxes, self.steps, self.preempted, (self.useful, self.whole))

    def _admit(self) -> None:
        if self.rule.static and self.running:
            return
        while self.waiting and len(self.running) < self.rule.slots:
            following = self._next()
            if self._held(following) + sum(map(self._held, self.running)) > self.rule.room:
                return
            self.waiting.remove(following)
            following.slot = min({*range(self.rule.slots)} - {each.slot for each in self.running})
            self.running.append(following)
            self.served[following.request.tenant] += following.request.prompt

    def _next(self) -> _State:
        if not self.rule.fair:
            return self.waiting[0]
        return min(self.waiting, key=lambda each: (self.served[each.request.tenant], each.number))

    def _held(self, each: _State) -> float:
        """Positions that a request occupies, now or at most."""
        if self.rule.reserve:
            return each.request.prompt + self.rule.limit
        return each.needs

    def _step(self) -> None:
        while sum(map(self._held, self.running)) > self.rule.room:
            youngest = max(self.running, key=lambda each: each.number)
            self.running.remove(youngest)
            youngest.read, self.preempted = 0, self.preempted + 1
            self.waiting.insert(0, youngest)
        parts = self._parts()
        tokens, cached = sum(parts.values()), sum(self.all[n].read + new for n, new in parts.items())
        end = self.now + self.seconds_of(tokens, cached)
        self.steps.append((self.now, len(parts), sum(each.read for each in self.running)))
        for each in self.running:
            self._note(each, end, parts)
        self.whole += (end - self.now) * len(self.running)
        self.now = end
        for number, new in parts.items():
            each = self.all[number]
            each.read += new
            if each.read >= each.needs:
                each.times.append(end)
                self.served[each.request.tenant] += 1
        if not self.rule.static or all(each.ended for each in self.running):
            self.running = [each for each in self.running if not each.ended]

    def _parts(self) -> dict[int, int]:
        """New tokens of each sequence in this step: one where it writes, otherwise some of what it has to read."""
        parts, left = dict[int, int](), self.rule.budget or math.inf
        for writing in (True, False):
            for each in self.running:
                missing = each.needs - each.read
                if not each.ended and (bool(each.times) and missing <= 1) == writing and left > 0:
                    parts[each.number] = int(min(missing, left))
                    left -= parts[each.number]
        return parts

    def _note(self, each: _State, end: float, parts: dict[int, int]) -> None:
        if each.ended:
            what = EMPTY
        elif each.number not in parts:
            return
        else:
            what = WRITES if each.times and each.needs - each.read <= 1 else READS
            self.useful += end - self.now
        last = self.last.get(each.slot, -1)
        if last >= 0:
            slot, since, to, number, old = self.boxes[last]
            if (number, old) == (each.number, what) and to >= self.now - 1e-12:
                self.boxes[last] = (slot, since, end, number, old)
                return
        self.last[each.slot] = len(self.boxes)
        self.boxes.append((each.slot, self.now, end, each.number, what))


def apart(requests: Sequence[Request], rule: Rule, seconds_of: Callable[[int, float], float], transfer: float) -> Run:
    """Prefill and decode on a server each: a prompt's keys and values take `transfer` seconds a token to the decoder.

    One link carries one prompt after the other. A layer's part is sent when it is computed, so most of it travels while
    later layers are; the last of 80 layers comes behind. The run's boxes and steps are the decoder's.
    """
    firsts = serve([Request(each.came, each.prompt, 1, each.tenant) for each in requests], rule, seconds_of)
    there, free = list[Request](), 0.0
    for each, times in zip(requests, firsts.times, strict=True):
        began = max(free, times[0] - seconds_of(each.prompt, each.prompt))
        free = max(began + transfer * each.prompt, times[0] + transfer * each.prompt / 80)
        there.append(Request(free, each.prompt + 1, each.answer - 1, each.tenant, each.prompt))
    longer = [number for number, each in enumerate(requests) if each.answer > 1]
    order = sorted(longer, key=lambda number: there[number].came)
    rest = serve([there[number] for number in order], rule, seconds_of)
    every = [list(each) for each in firsts.times]
    for number, more in zip(order, rest.times, strict=True):
        every[number] += more
    return Run(requests, every, rest.boxes, rest.running, rest.preempted, rest.rows)


def spread(requests: Sequence[Request], replicas: int, rule: Rule, seconds_of: Callable[[int, float], float]) -> Run:
    """Replicas that get the requests in turn and do all of it; the run has the boxes and steps of none."""
    runs = [serve(requests[first::replicas], rule, seconds_of) for first in range(replicas)]
    both = [pair for run in runs for pair in zip(run.requests, run.times, strict=True)]
    both.sort(key=lambda pair: pair[0].came)
    rows = (sum(run.rows[0] for run in runs), sum(run.rows[1] for run in runs))
    return Run([one for one, _ in both], [times for _, times in both], (), (), sum(r.preempted for r in runs), rows)
