"""What a run of rollout_sync left: every generate(), every sample that a step used, and when trainer 0 could know it."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from grader.exercises.common import plain
from grader.exercises.rollout_sync import unfinished
from grader.exercises.rollout_sync.policy import COLUMNS, DEPTH, NEAR, SAMPLE, Array, Given, Plan
from grader.lost import Lost
from grader.ranks.program import CallResult, Strided
from grader.trace.events import SEND, Trace
from grader.worlds.cases import Case
from grader.worlds.ranks import Outcome, RankBench

NANOSECONDS = 1e9
NOTES = 2  # the place of the notes among the harness's arguments
SAMPLE_BYTES = 4 * SAMPLE  # a message with a sample is at least so long
LEAST = 0.45  # of the params' bytes: less does not carry a version
IN_HAND = 4  # prompts that a generator may hold before the one that is handed to it, when none is generated


@dataclass(frozen=True, eq=False)
class Made:
    """The `index`-th generate() of a generator, from `since` to `until` (seconds; infinite: it was killed in it).

    `version`: that of the params it was given; -1 where no trainer ever had these. `known`: by then trainer 0 has
    learned of it for certain, whatever the messages are (infinite: that cannot be told). `handed`: its prompt was
    handed to the generator no earlier than this (minus infinity: that cannot be told).
    """

    rank: int
    index: int
    prompt: int
    version: int
    sample: Array
    logprob: float
    since: float
    until: float
    known: float
    handed: float

    @property
    def whole(self) -> bool:
        return self.until < math.inf

    def name(self) -> str:
        """For people."""
        return f"prompt {self.prompt} on rank {self.rank} (version {self.version})"


@dataclass(frozen=True, eq=False)
class Used:
    """One sample in one step. `made` is the generate() that it is of: the same prompt, sample and logprob."""

    step: int
    trainer: int
    prompt: int
    told: int  # the version, as optimizer_step was told
    sample: Array
    logprob: float
    made: Made | None

    @property
    def version(self) -> int:
        """The one that it was made with, as far as the run shows it."""
        return self.made.version if self.made is not None and self.made.version >= 0 else self.told


@dataclass(frozen=True, eq=False)
class History:
    """A run. `versions` are the params of version 0, 1, ..., (n,) float64, as the trainers' samples make them.

    `places[t][s]` is where the params lie that trainer t gave to optimizer_step in step s, `spans[t][s]` from when
    until when that took, in seconds.
    """

    given: Given
    made: tuple[Made, ...]
    used: tuple[Used, ...]
    versions: tuple[Array, ...]
    places: tuple[Array, ...]
    spans: tuple[tuple[tuple[float, float], ...], ...]

    @property
    def plan(self) -> Plan:
        return self.given.plan

    @property
    def done(self) -> int:
        """Steps that all trainers made."""
        return min(map(len, self.places))

    def of(self, rank: int) -> list[Made]:
        """What one generator made, in order."""
        return [each for each in self.made if each.rank == rank]

    def of_prompt(self, prompt: int) -> list[Made]:
        """Every generate() of a prompt, in the order in which they began."""
        return sorted((each for each in self.made if each.prompt == prompt), key=lambda made: made.since)

    def in_step(self, step: int) -> list[Used]:
        return [each for each in self.used if each.step == step]

    @cached_property
    def first_used(self) -> dict[int, int]:
        """By prompt, the first step that uses it."""
        found: dict[int, int] = {}
        for each in self.used:
            found[each.prompt] = min(each.step, found.get(each.prompt, each.step))
        return found

    @cached_property
    def new(self) -> dict[int, Made]:
        """By prompt, the first generate() of it."""
        found: dict[int, Made] = {}
        for each in sorted(self.made, key=lambda made: made.since):
            found.setdefault(each.prompt, each)
        return found

    @cached_property
    def busy_until(self) -> float:
        """Until then there are prompts to hand out for certain: some new one is handed out later, also if generators
        hold some in hand. Minus infinity of a run that is too short to tell."""
        return max((made.handed for made in self.new.values()), default=-math.inf)

    def noticed(self, moment: float) -> float:
        """By when trainer 0 has looked through its samples after a moment: when the next step that it begins is over."""
        return next((until for since, until in self.spans[0] if since >= moment), math.inf)

    def version_since(self, version: int) -> float:
        """By when this version is there: the step before it is over on all trainers."""
        if version <= 0:
            return 0.0
        return max((spans[version - 1][1] if version <= len(spans) else math.inf) for spans in self.spans)


def read(bench: RankBench, group: str) -> Iterator[tuple[Case, CallResult, History]]:
    """The finished calls of `group`, each with its history."""
    try:
        for case, result in bench.calls(group):
            history = of(case.expected, result)
            if history is None:
                message = f"With {case.label}: what was noted of the run is not what happened in it. Do not touch the records."
                raise bench.lost(case, "sandbox_violation", message)
            yield case, result, history
    except Lost as loss:
        if not isinstance(loss.picture, Outcome) or loss.picture.result is not None:
            raise
        raise unfinished.told(loss, loss.picture.case, loss.picture.run.trace) from None


def of(given: Given, result: CallResult) -> History | None:
    """The history of a finished call; None where its notes contradict its trace."""
    plan = given.plan
    tables = [_taken(plan, result, trainer) for trainer in range(plan.trainers)]
    if any(table is None for table in tables):
        return None
    places, samples = zip(*(table for table in tables if table is not None), strict=True)
    done = min(map(len, places))
    versions = [given.start.astype(np.float64)]
    for step in range(done):
        versions.append(given.stepped(versions[-1], [share[step] for share in samples]))
    known = [(number, given.place(version)) for number, version in enumerate(versions)]
    known += [(step, row) for rows in places for step, row in enumerate(rows)]
    made: list[Made] = []
    for rank in plan.of_generators:
        rows = _rows(result, rank)
        found = _made(plan, result, rank, rows, known) if rows is not None else None
        if found is None:
            return None
        made += found
    spans = tuple(_steps(result, trainer) for trainer in range(plan.trainers))
    if any(len(each) != len(rows) for each, rows in zip(spans, places, strict=True)):
        return None
    used = tuple(
        _used(step, trainer, row, made)
        for trainer, share in enumerate(samples) for step in range(len(share)) for row in share[step]
    )  # fmt: skip
    return History(given, tuple(made), used, tuple(versions), places, spans)


# ---- the notes


def _rows(result: CallResult, rank: int) -> Array | None:
    """What the harness noted of a rank's calls; None where that has become something else."""
    notes = result.arguments[rank][NOTES]
    if not isinstance(notes, list) or len(notes) < 2 or not isinstance(notes[1], Strided) or len(notes[1].shape) != 2:
        return None
    count = plain.number(notes[0])
    return np.nan_to_num(notes[1].view()[: int(count)].astype(np.float64)) if count is not None and count >= 0 else None


def _taken(plan: Plan, result: CallResult, trainer: int) -> tuple[Array, Array] | None:
    """Of every step of a trainer: where its params lay, (steps, DEPTH), and its samples, (steps, batch / T, COLUMNS)."""
    rows, notes = _rows(result, trainer), result.arguments[trainer][NOTES]
    shape = (plan.steps, plan.batch // plan.trainers, COLUMNS)
    if rows is None or len(notes) != 3 or not isinstance(notes[2], Strided) or notes[2].shape != shape:
        return None
    return rows, np.nan_to_num(notes[2].view()[: len(rows)].astype(np.float64))


def _steps(result: CallResult, trainer: int) -> tuple[tuple[float, float], ...]:
    spans = [s for s in result.trace.spans if s.rank == trainer and s.what == "compute" and s.name[:1] == "s"]
    return tuple((span.since / NANOSECONDS, span.until / NANOSECONDS) for span in sorted(spans, key=lambda s: s.since))


def _made(plan: Plan, result: CallResult, rank: int, rows: Array, known: list[tuple[int, Array]]) -> list[Made] | None:
    """All calls of generate() on one rank; None where the trace has others."""
    trace = result.trace
    spans = [s for s in trace.spans if s.rank == rank and s.what == "compute" and s.name[:1] == "g"]
    spans.sort(key=lambda span: span.since)
    if [span.name for span in spans] != [f"g{int(row[0])}" for row in rows]:
        return None
    killed = min((s.since for s in trace.spans if s.rank == rank and s.what == "killed"), default=math.inf)
    ends = [span.until for span in spans]
    learned = _learned(plan, result, rank, ends, [span.since for span in spans])
    found = []
    for index, (span, row) in enumerate(zip(spans, rows, strict=True)):
        distance, version = min((float(np.abs(place - row[1 : 1 + DEPTH]).max()), number) for number, place in known)
        whole = span.until <= killed
        before = index - IN_HAND - 1
        found.append(Made(
            rank, index, int(row[0]), version if distance < NEAR else -1, row[1 + DEPTH : -1], float(row[-1]),
            span.since / NANOSECONDS, span.until / NANOSECONDS if whole else math.inf, learned[index] if whole else math.inf,
            ends[before] / NANOSECONDS if before >= 0 else -math.inf,
        ))  # fmt: skip
    return found


def _learned(plan: Plan, result: CallResult, rank: int, ends: list[int], begins: list[int]) -> list[float]:
    """By when trainer 0 has learned of each generate(): all that the generator sends the trainers between it and the next
    one has been received. Where nothing of that can hold a sample, what it sends after the next one, too."""
    sent = [
        (send.posted, send.size, recv.resumed if recv.done else math.inf)
        for send, recv in result.trace.messages
        if send.kind == SEND and send.rank == rank and recv.rank < plan.trainers
    ]
    gaps = [
        [(size, at) for posted, size, at in sent if end <= posted < begin]
        for end, begin in zip(ends, [*begins[1:], math.inf], strict=True)
    ]
    found = []
    for index in range(len(gaps)):
        messages: list[tuple[int, float]] = []
        for gap in gaps[index:]:
            messages += gap
            if any(size >= SAMPLE_BYTES for size, _ in gap):
                break
        whole = any(size >= SAMPLE_BYTES for size, _ in messages)
        found.append(max(at for _, at in messages) / NANOSECONDS if whole else math.inf)
    return found


def _used(step: int, trainer: int, row: Array, made: list[Made]) -> Used:
    prompt, sample, logprob = int(row[0]), row[2:-1], float(row[-1])
    fits = [
        each for each in made
        if each.whole and each.prompt == prompt and np.array_equal(each.sample, sample) and _same(each.logprob, logprob)
    ]  # fmt: skip
    told = int(row[1])
    best = min(fits, key=lambda each: each.version != told, default=None)
    return Used(step, trainer, prompt, told, sample, logprob, best)


def _same(one: float, other: float) -> bool:
    return bool(np.float32(one) == np.float32(other))


def at(seconds: float) -> str:
    """A time, for people: "9.119 s"."""
    return f"{round(seconds, 3):g} s"


def stretches(history: History, rank: int, until: float) -> list[tuple[float, float]]:
    """When a generator is outside generate(), between its first one and `until`."""
    mine = [each for each in history.of(rank) if each.since < until]
    if not mine:
        return []
    ends = [min(each.until, until) for each in mine]
    gaps = list(zip(ends, [*(each.since for each in mine[1:]), until], strict=True))
    return [(a, b) for a, b in gaps if b > a]


def pairs_of_one_prompt(history: History) -> Iterator[tuple[Made, Made]]:
    """Every generate() of a prompt, and the next one of the same."""
    for prompt in sorted(history.new):
        yield from itertools.pairwise(history.of_prompt(prompt))


def untold(history: History, trace: Trace) -> tuple[int, int, int] | None:
    """A generator that had more new versions than messages can have brought it: its rank, how many, and the bytes that
    it received; None if there is none. Messages of half a float32 for each parameter are believed."""
    size = history.given.start.nbytes
    for rank in history.plan.of_generators:
        if any(op.collective and op.size for op in trace.operations(rank)):
            continue
        versions = len({made.version for made in history.of(rank) if made.version > 0})
        received = sum(recv.size for _, recv in trace.messages if recv.rank == rank)
        if received < LEAST * size * versions:
            return rank, versions, received
    return None
