"""run(map_fn, reduce_fn, inputs, workers, reducers, combine_fn=None): MapReduce on workers that die and stand still.

Dean and Ghemawat 2004, "MapReduce: simplified data processing on large clusters", sections 3 and 4. Judged by what run()
returns and by the bytes that its tasks returned, whatever the tasks are.
"""

from __future__ import annotations

import math
import random
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from itertools import chain
from typing import Any

from grader import says, tally
from grader.exercise import Check, Exercise
from grader.jobs import given
from grader.jobs.bench import JobBench
from grader.jobs.cluster import Done, Job
from grader.jobs.host import size
from grader.lost import Lost
from grader.trace.gantt import Chart
from grader.verdict import Diagnosis
from grader.worlds.job import Jobs

Functions = tuple[str, str, str | None]
COUNT: Functions = ("words", "total", None)
SMALL_SPLIT, SPLIT, WORDS = 60, 2_000, 40  # words in a split, of so many different ones
SHARE = 0.1  # of the bytes without a combiner
LESS = 0.9  # of those: what map tasks return where they combine at all
CHANGES = [["", 0], ["Zürich", 4], ["東京", 0], ["São Paulo", 2], ["Oslo", 3], ["東京", 0],
           ["", 6], ["Zürich", 0], ["łódź", 0], ["Oslo", 1], ["São Paulo", 5]]  # fmt: skip
BALANCED = [[["Oslo", 4], ["Bergen", 2], ["Oslo", -4], ["Bergen", -2]], [["Bergen", 3], ["Alta", 1], ["Alta", -1]],
            [["Alta", 6], ["Alta", -6], ["Bergen", 1]]]  # fmt: skip
BELOW = [[["Oslo", -4], ["Oslo", 0], ["Oslo", -3]], [["Oslo", -5], ["Bergen", -2]]]
MIXED = [
    [["Oslo", None], ["Bergen", {"m": 3}], ["Oslo", "7"]],
    [["Oslo", 7], ["Alta", 9], ["Bergen", {"m": 2}], ["Oslo", [0.5]]],
]


# ---- what is given


def text(rng: random.Random, splits: int, length: int = SMALL_SPLIT) -> list[str]:
    """Splits of a text of which some words are frequent, as words are."""
    known = _named(rng, WORDS)
    weights = [1 / (rank + 1) for rank in range(WORDS)]
    return [" ".join(rng.choices(known, weights, k=length)) for _ in range(splits)]


def _named(rng: random.Random, count: int) -> list[str]:
    """Different words."""
    found: dict[str, None] = {}
    while len(found) < count:
        found["".join(rng.choices("abcdefghijklmnopqrstuvwxyz", k=rng.randint(4, 9)))] = None
    return list(found)


def log(rng: random.Random, splits: int) -> list[list[list[str]]]:
    """Lines (visitor, page)."""
    pages, visitors = [f"/{name}" for name in _named(rng, 8)], _named(rng, 12)
    return [[[rng.choice(visitors), rng.choice(pages)] for _ in range(30)] for _ in range(splits)]


def readings(rng: random.Random, splits: int) -> list[list[list[Any]]]:
    """Rows (sensor, whole number)."""
    sensors = _named(rng, 10)
    return [[[rng.choice(sensors), rng.randrange(-999, 1000)] for _ in range(25)] for _ in range(splits)]


def expected(job: Job) -> dict[Any, Any]:
    """What run() must return."""
    map_fn, reduce_fn = getattr(given, job.functions[0]), getattr(given, job.functions[1])
    groups: dict[Any, list[Any]] = defaultdict(list)
    for item in job.inputs:
        for key, value in map_fn(item):
            groups[key].append(value)
    return {key: reduce_fn(key, values) for key, values in groups.items()}


# ---- what must hold


def wrong(bench: JobBench, done: Done, why: str = "") -> Diagnosis | None:
    """What run() returned and should not have, or the other way round."""
    found = bench.found
    where = f"{done.job.label}. " if done.job.label else ""
    if done.items is None:
        text = f"{where}run() returned a {done.type_name}. Return a dict of key to result."
        return found("wrong_result", text, "a dict", done.type_name)
    right = expected(done.job)
    got = dict(done.items)
    lost = [key for key in right if key not in got]
    if lost:
        if not why and not any(right[key] for key in lost):
            why = f"The right result of each missing key is {_told(right[lost[0]])}. Drop no value and no result that is 0."
        text = f"{where}{_count(lost, 'key')} missing from what run() returned, for example {lost[0]!r}. {why}"
        return found("wrong_result", text.strip(), f"{len(right)} keys", f"{len(got)} keys")
    more = [key for key in got if key not in right]
    if more:
        text = (
            f"{where}run() returned {says.counted(len(more), 'key')} that no map_fn gave, for example {_told(more[0])}."
        )
        return found("wrong_result", text, f"{len(right)} keys", f"{len(got)} keys")
    bad = [key for key, value in right.items() if not _same(got[key], value)]
    if not bad:
        return unused(bench, done)
    key = bad[0]
    text = f"{where}For {key!r} run() returned {_told(got[key])} instead of {_told(right[key])}"
    how = _how(got, right, bad) if done.job.functions[1] == "total" else ""
    if [got[key]] == [
        value for item in done.job.inputs for its, value in given.named(done.job.functions[0])(item) if its == key
    ]:
        how = "That is its only value. Call reduce_fn for every key, also for one with a single value."
    once = replace(
        done.job, inputs=[item for at, item in enumerate(done.job.inputs) if item not in done.job.inputs[:at]]
    )
    if len(once.inputs) < len(done.job.inputs) and got == expected(once):
        how = (
            "This is the result if equal splits are counted only once. Map every element of inputs, also one that equals "
            "another. Tell them apart by their position in inputs, not by what they hold."
        )
    text += f" ({len(bad)} of {len(right)} keys are wrong). {how} {why}"
    return found("wrong_result", " ".join(text.split()), f"{key!r}: {_told(right[key])}", _told(got[key]))


def unused(bench: JobBench, done: Done) -> Diagnosis | None:
    """What was right, but not done by workers: a split without a task of its own, or a fault that could not happen."""
    job, found = done.job, bench.found
    where = f"{job.label}. " if job.label else ""
    sizes = sorted(size(item) for item in job.inputs)
    given = sorted(task.given for task in done.tasks if task.became == "done")[-len(sizes) :] if sizes else []
    went = sum(room >= size for room, size in zip(reversed(given), reversed(sizes), strict=False))
    if went < len(sizes):
        text = (
            f"{where}The result is right, but only {says.counted(went, 'task')} got enough bytes to have been given one "
            f"of the {len(sizes)} splits. Submit one map task for each element of inputs, with that element."
        )
        return found("too_few_bytes", text, f"{len(sizes)} map tasks", str(went))
    died = sum(task.became == "died" for task in done.tasks)
    stood = sum(task.became == "running" and task.end is None for task in done.tasks)
    if died < len(set(job.deaths)) or stood < len(set(job.still)):
        last = _nth(max(*job.deaths, *job.still, 0))
        missing = (
            f"no {last} task whose worker could be killed" if job.deaths else f"no {last} task that could stand still"
        )
        text = (
            f"{where}The result is right, but only {says.counted(done.different, 'different task')} ran, so there was {missing}. "
            f"This job has {says.counted(len(sizes), 'split')} and {says.counted(job.reducers, 'reducer')}. Submit one map "
            "task for each split, and one reduce task for each reducer."
        )
        return found("too_slow", text, f"{len(sizes)} map tasks, {job.reducers} reduce tasks", str(done.different))
    return None


def shared_out(bench: JobBench, done: Done) -> Diagnosis | None:
    """Whether all workers map at once, and there are not many more tasks than splits and reducers."""
    job, found = done.job, bench.found
    most = 2 * (len(job.inputs) + job.reducers)
    if job.inputs:
        tally.note("different tasks", done.different, most, "tasks", where=job.label)
    if done.different > most:
        text = (
            f"{job.label}. {done.different} different tasks ran. At most {most} are allowed, and "
            f"{len(job.inputs) + job.reducers} are enough: one map task for each of {len(job.inputs)} splits, and one "
            f"reduce task for each of {job.reducers} reducers."
        )
        return found("too_many_messages", text, f"<= {most} tasks", str(done.different))
    first = done.tasks[: len(job.inputs)]  # before them, nothing can be reduced
    ran = [(task.begin, task.end) for task in first if task.end is not None]
    at_once = max((sum(begin <= at < end for begin, end in ran) for at, _ in ran), default=0)
    busy = min(job.workers, len(job.inputs))
    if busy:
        tally.note("map tasks at the same time", at_once, busy, "tasks", where=job.label, at_least=True)
    if at_once < busy:
        text = (
            f"{job.label}. Never more than {says.counted(at_once, 'task')} ran at the same time, although {busy} workers "
            "can map. Submit all map tasks, then wait."
        )
        return found("too_slow", text, f"{busy} at the same time", str(at_once))
    return None


def _nth(number: int) -> str:
    return f"{number}{'th' if 10 < number % 100 < 20 else {1: 'st', 2: 'nd', 3: 'rd'}.get(number % 10, 'th')}"


def _how(got: dict[Any, Any], right: dict[Any, Any], bad: Sequence[Any]) -> str:
    """Which way the wrong sums of positive numbers lie."""
    pairs = [(got[key], right[key]) for key in bad]
    if not all(isinstance(one, int | float) and not isinstance(one, bool) for pair in pairs for one in pair):
        return ""
    if all(mine > its for mine, its in pairs):
        return "All of them are too large, so something was counted more than once."
    if all(mine < its for mine, its in pairs):
        return "All of them are too small, so values are missing in the sums."
    return ""


def _same(got: Any, right: Any) -> bool:
    if isinstance(got, bool) or not isinstance(got, int | float):
        return False
    try:
        return math.isclose(got, right, rel_tol=1e-9, abs_tol=1e-12)
    except OverflowError:  # an int that no float holds
        return False


def _count(things: Sequence[Any], name: str) -> str:
    return f"{says.counted(len(things), name)} {'is' if len(things) == 1 else 'are'}"


def _told(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 60 else text[:57] + "..."


# ---- the checks


def _hold(bench: JobBench, jobs: Iterator[Job], why: str = "") -> Chart:
    return bench.hold(jobs, lambda done: wrong(bench, done) and wrong(bench, done, _because(bench, done.job, why)))


def _because(bench: JobBench, job: Job, why: str) -> str:
    """`why`, if what befalls the workers makes the result wrong: it is right where nothing does."""
    calm = replace(job, deaths=(), hash_seeds=False)
    if calm == job:
        return why
    try:
        alone = wrong(bench, bench.run(calm)) is None
    except Lost:
        alone = False
    calmly = "no worker dies" if job.deaths else "hash() is the same everywhere"
    return why if alone else f"The result is also wrong when {calmly}."


def _late(done: Done) -> str:
    """What a result that is wrong with a standing worker comes from, if the tasks that came back say so."""
    came = sum(task.became == "done" for task in done.tasks)
    if came > done.different:
        return "If both a task and its backup return, count one of the results."
    if came < done.different:
        return "run() returned before each task was done once. Submit a late task a second time, and wait for one of the two."
    return ""


def _right(bench: JobBench) -> Chart:
    rng = bench.rng("right")

    def jobs() -> Iterator[Job]:
        yield Job(COUNT, text(rng, 6), 3, 4, seed=rng.randrange(2**31), label="Word count, 6 splits, 3 workers")
        yield Job(("views", "total", None), log(rng, 9), 2, 3, seed=rng.randrange(2**31), label="Page views, 9 splits")
        yield Job(COUNT, ["one two"], 1, 1, seed=1, label="One split, one worker, one reducer")
        few = ["", "x y x", "", "y", "x y x"]
        yield Job(COUNT, few, 2, 7, seed=2, label="Empty splits, two equal splits, and more reducers than keys")
        yield Job(COUNT, [], 2, 2, seed=3, label="No input at all")
        odd = "Sums; a map_fn that yields, values of 0, and keys that are empty or not ASCII"
        yield Job(("changes", "total", None), [CHANGES[:6], [], CHANGES[6:]], 2, 2, seed=4, label=odd)
        own = "Values of several types (None, str, int, list, dict), and a reduce_fn that appends to its list of values"
        yield Job(("readings", "spelled", None), MIXED, 2, 2, seed=6, label=own)

    return bench.hold(jobs(), lambda done: wrong(bench, done) or shared_out(bench, done))


def _one_reducer(bench: JobBench) -> Chart:
    rng = bench.rng("one reducer")
    hottest = ("readings", "largest", None)
    jobs = (
        Job(hottest, readings(rng, 6), 3, reducers, seed=rng.randrange(2**31), label=f"Maxima, {reducers} reducers")
        for reducers in (4, 3, 8)
    )
    return _hold(bench, jobs, "Send all values of a key to one reducer, in one call of reduce_fn.")


def _partitioner(bench: JobBench) -> Chart:
    rng = bench.rng("partitioner")
    jobs = (
        Job(COUNT, text(rng, 4), 4, reducers, hash_seeds=True, seed=rng.randrange(2**31),
            label="Workers as on different machines")
        for reducers in (4, 3)
    )  # fmt: skip
    why = (
        "Python's hash() of a string differs from process to process (PYTHONHASHSEED). Choose the reducer by a function "
        "of the key's bytes."
    )
    return _hold(bench, jobs, why)


def _shuffle(bench: JobBench) -> Chart:
    rng = bench.rng("shuffle")
    inputs, seed = text(rng, 4, SPLIT), rng.randrange(2**31)
    without = bench.run(Job(COUNT, inputs, 3, 3, seed=seed, label="Without a combiner"))
    # or what its pairs take: a submission that groups by key returns far less than that, also without a combiner
    pairs = sum(size(list(given.words(split))) for split in inputs)
    plain = max(without.returned_bytes, pairs)

    def judge(done: Done) -> Diagnosis | None:
        found = wrong(bench, done)
        tally.note("bytes that tasks return", done.returned_bytes, SHARE * plain, "bytes", where=done.job.label,
                   reference=plain, of="no combiner")  # fmt: skip
        if found is not None or done.returned_bytes <= SHARE * plain:
            return found
        whole = "bytes without it" if plain == without.returned_bytes else "bytes that all pairs take"
        advice = "Combine in the map task, before anything is sent."
        if done.returned_bytes < LESS * without.returned_bytes:  # some of it is
            advice = "Return one combined pair for each word of a split, and nothing else."
        message = (
            f"With combine_fn the tasks returned {done.returned_bytes:,} bytes, {done.returned_bytes / plain:.0%} of the "
            f"{plain:,} {whole}. At most {SHARE:.0%} is allowed, because a split of {SPLIT:,} words has only "
            f"{WORDS} different ones. {advice}"
        )
        return bench.found("too_many_bytes", message, f"<= {SHARE * plain:,.0f} bytes", f"{done.returned_bytes:,}")

    combined = Job(("words", "total", "total"), inputs, 3, 3, seed=seed, label="With a combiner")
    return bench.hold([combined], judge)


def _combiner(bench: JobBench) -> Chart:
    rng = bench.rng("combiner")

    def jobs() -> Iterator[Job]:
        means = ("sums", "mean", "add_up")
        yield Job(
            means, readings(rng, 5), 3, 1, seed=rng.randrange(2**31), label="Means, from combined sums and counts"
        )
        for functions in (("visits", "distinct", None), ("readings", "median", None)):
            inputs = log(rng, 5) if functions[0] == "visits" else readings(rng, 5)
            what = "Visitors of each page" if functions[0] == "visits" else "Medians"
            yield Job(functions, inputs, 3, 1, seed=rng.randrange(2**31), label=f"{what}, without a combiner")
        yield Job(("changes", "total", "total"), BALANCED, 2, 2, seed=5, label="Sums, of which some are combined to 0")
        yield Job(("changes", "largest", "largest"), BELOW, 2, 2, seed=6, label="Largest values, of which one is 0")

    return bench.hold(jobs(), lambda done: wrong(bench, done) and wrong(bench, done, _reduced(done)))


def _reduced(done: Done) -> str:
    """What was done to the values of each key, if all that run() returned says so."""
    job, got = done.job, dict(done.items or ())
    map_fn, reduce_fn = getattr(given, job.functions[0]), getattr(given, job.functions[1])
    combine_fn = given.named(job.functions[2]) if job.functions[2] else None
    groups: dict[Any, list[list[Any]]] = defaultdict(list)
    for item in job.inputs:
        of_one: dict[Any, list[Any]] = defaultdict(list)
        for key, value in map_fn(item):
            of_one[key].append(value)
        for key, values in of_one.items():
            groups[key].append(values)
    lost = groups.keys() - got.keys()
    if combine_fn is not None and lost and not any(combine_fn(key, part) for key in lost for part in groups[key]):
        return "In each split, its values are combined to 0, and 0 is a value, too. Leave out no pair because its value is 0."
    true = {key: [value for value in chain(*parts) if value] for key, parts in groups.items()}
    if got == {key: reduce_fn(key, values) for key, values in true.items() if values}:
        return "These are the results without the values that are 0. 0 is a value, too."
    if combine_fn is not None and got == {key: combine_fn(key, list(chain(*parts))) for key, parts in groups.items()}:
        return "These are the results of combine_fn. Call reduce_fn once for each key, with the combined values."
    if combine_fn is None and got == {
        key: reduce_fn(key, [reduce_fn(key, part) for part in parts]) for key, parts in groups.items()
    }:
        return "reduce_fn was applied to the values of each split, and then to its results. Call it once for each key, with all values."
    return ""


def _deaths(
    label: str, what: str, deaths: Callable[[int, int], tuple[int, ...]], why: str
) -> Callable[[JobBench], Chart]:
    """A check in which workers are killed: `deaths` of the numbers of splits and of workers."""

    def judge(bench: JobBench) -> Chart:
        rng = bench.rng(label)
        jobs = (
            Job(COUNT, text(rng, splits), workers, 3, deaths(splits, workers), seed=rng.randrange(2**31),
                label=f"{splits} splits, {workers} workers; {what}")
            for splits, workers in ((6, 3), (8, 4), (5, 2))
        )  # fmt: skip
        return _hold(bench, jobs, why)

    return judge


def _straggler(bench: JobBench) -> Chart:
    rng = bench.rng("straggler")
    jobs = (
        Job(COUNT, text(rng, splits), 3, 3, still=(number,) * often, seed=rng.randrange(2**31),
            label=f"{splits} splits, 3 workers; task {number} stands still{' on two workers' if often > 1 else ''}")
        for splits, number, often in ((6, 2, 1), (7, 5, 2), (3, 5, 1))
    )  # fmt: skip
    return bench.hold(jobs, lambda done: wrong(bench, done) and wrong(bench, done, _late(done)))


_mapping = _deaths(  # of four workers three, with one and the same split
    "mapping", "killed in the first tasks", lambda splits, workers: (1, 1, 1) if workers == 4 else (1, 2)[: workers - 1],
    "The task of a worker that dies is lost. Submit the task of the \"died\" event again.",
)  # fmt: skip
_mapped = _deaths(
    "mapped", "one is killed after it has mapped a split", lambda splits, workers: (workers + 2,),
    "A result that came back with \"done\" stays valid when its worker dies later. Submit only the task of the \"died\" "
    "event again.",
)  # fmt: skip
_reducing = _deaths(
    "reducing", "one is killed while it reduces", lambda splits, workers: (splits + 2,),
    "A reduce task is lost with its worker, too. Submit it again.",
)  # fmt: skip

EXERCISE = Exercise(
    name="mapreduce",
    chapter="04",
    title="MapReduce on workers that die",
    minutes=75,
    difficulty=2,
    cost="seconds",
    world=Jobs("run"),
    checks=(
        Check("right", "Word count and page views; empty splits, no input, more reducers than keys", 4, _right),
        Check("one_reducer", "All values of a key meet in one reducer", 3, _one_reducer),
        Check("partitioner", "Every worker sends a key to the same reducer", 3, _partitioner),
        Check("shuffle", "With a combiner at most a tenth of the bytes", 3, _shuffle),
        Check("combiner", "Combines only what may be combined", 3, _combiner),
        Check("mapping", "A worker is killed in its first task", 3, _mapping),
        Check("mapped", "A worker is killed that has mapped before", 3, _mapped),
        Check("reducing", "A worker is killed while it reduces", 3, _reducing),
        Check("straggler", "A worker stands still, and the job ends without it", 3, _straggler),
    ),
)
