"""process_all(items, fn, max_in_flight) and Counter: tasks that are not too many at once, and an actor that outlives its
process.

Moritz et al. 2018, "Ray: a distributed framework for emerging AI applications", sections 3 and 4. What fn returns, and
when, is decided here: fn asks at a gate. How many tasks there were at a time is told by Ray's own tables.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from pathlib import Path

from grader import says, tally
from grader.exercise import Check, Exercise
from grader.exercises.ray_tasks.in_flight import CALL_SECONDS, PATIENT_SECONDS, shift, told
from grader.jobs.rays.bench import RayBench, once_more
from grader.jobs.rays.lease import CPUS, Said
from grader.lost import Lost
from grader.trace.gantt import Bar, Became, Chart
from grader.worlds.ray import Ray

LARGE_BYTES = 4 * 2**20
MOST_SERIALISED = 2
MANY = 208  # items: who puts fn anew for each hundred of them is caught, too


# ---- the checks of process_all


def _right(bench: RayBench) -> Chart:
    rng = bench.rng("right")
    first = shift(bench, rng, 10, 3, "; the last that came is done first").run().by_workers().right()
    for count, limit in ((0, 2), (1, 4), (4, 1)):
        shift(bench, rng, count, limit, "").run().by_workers().right()
    twice = ", every item twice, among them a list and a dict"
    shift(bench, rng, 3, 50, twice, odd=True).run().by_workers().right()
    return first.chart()


def _in_flight(bench: RayBench) -> Chart:
    rng, charts = bench.rng("in flight"), []
    for count, limit in ((12, 3), (9, 2), (4, 1), (14, 6)):
        one = shift(bench, rng, count, limit, "").run().by_workers()
        most = one.in_flight()
        tally.note("tasks in flight", most, limit, "tasks", where=one.label)
        if most > limit:
            text = (
                f"{one.label}. {most} tasks were submitted and not yet done at the same time, more than max_in_flight. "
                "Submit that many tasks, and then another one only when ray.wait says that one is done."
            )
            raise one.lost(bench.found("too_many_messages", text, f"<= {limit} in flight", str(most)))
        charts.append(one.chart())
    return charts[0]


def _parallel(bench: RayBench) -> Chart:
    rng, charts = bench.rng("parallel"), list[Chart]()
    for count, limit in ((9, 2), (10, 4), (8, 20)):
        one = shift(bench, rng, count, limit, f", {CPUS} CPUs", patience=PATIENT_SECONDS)
        if not charts:
            one.slow = one.items[0]
            one.label += f"; the call for {one.slow!r} lasts until all others are done"
        one.run().by_workers()
        busy = min(limit, CPUS)
        tally.note("calls at the same time", one.most, busy, "calls", where=one.label, at_least=True)
        if one.most < busy:
            text = (
                f"{one.label}. Never more than {says.counted(one.most, 'call')} of fn ran at the same time, although "
                f"{busy} can. Submit up to max_in_flight tasks, of one CPU each, before you wait for the first."
            )
            raise one.lost(bench.found("too_slow", text, f"{busy} at the same time", str(one.most)))
        if one.behind is not None:
            text = (
                f"{one.label}. Other calls ended while it ran, and then no further call began. Only "
                f"{says.counted(one.behind, 'call')} ran, although {busy} can and more items were left. Submit the next "
                "task as soon as any task is done. ray.wait says which tasks are done."
            )
            raise one.lost(bench.found("too_slow", text, f"{busy} at the same time", str(one.behind)))
        charts.append(one.chart())
    return charts[0]


def _retried(bench: RayBench) -> Chart:
    rng, charts = bench.rng("retried"), []
    for count, limit in ((6, 2), (8, 3)):
        one = shift(bench, rng, count, limit, "; a worker is killed while fn runs there, and later another")
        one.deaths = (one.items[1], one.items[-2])
        try:
            one.run()
        except Lost as trouble:
            if trouble.diagnosis.kind != "crash" or not any(each.became == "died" for each in one.begun):
                raise
            text = (
                f"{one.label}. {trouble.diagnosis.message} Ray runs the task of a lost worker again, up to max_retries "
                "times. For actors, set max_restarts and max_task_retries."
            )
            line = trouble.diagnosis.line
            raise one.lost(bench.found("crash", text, "the task runs again", "an error", line)) from None
        charts.append(one.by_workers().right(ordered=False).chart())
    return charts[0]


def _once(bench: RayBench) -> Chart:
    one = shift(bench, bench.rng("once"), MANY, 4, f"; fn has {LARGE_BYTES // 2**20} MiB with it", captured=LARGE_BYTES)
    one.run().by_workers()
    tally.note("times fn is serialized", one.serialised, MOST_SERIALISED, "times", where=one.label)
    if one.serialised > MOST_SERIALISED:
        text = (
            f"{one.label}. What fn has captured was serialized {one.serialised} times for {len(one.items)} items. At "
            f"most {MOST_SERIALISED} times are allowed. Put fn into the object store once (ray.put, or ray.remote(fn)), "
            "and pass the reference."
        )
        more = (f"<= {MOST_SERIALISED} times", str(one.serialised))
        raise one.lost(bench.found("too_many_bytes", text, *more))
    if one.serialised == 0:
        text = f"{one.label}. fn was never serialized, so fn never went to a worker. Pass fn itself to the tasks."
        raise one.lost(bench.found("too_few_bytes", text, "once", "0"))
    return one.chart()


# ---- the checks of Counter

Step = tuple[str, str, tuple[int, ...]]


def _counted(bench: RayBench, label: str, steps: Sequence[Step]) -> Chart:
    """Have counters do these steps; those of the same first letter have the same file, which may get another's name."""
    kills = 0

    def said(heard: Said) -> None:
        nonlocal kills
        if heard.role == "driver" and heard.what["what"] == "kill":
            kills += _kill(bench, label)
        bench.driver.answer(heard)

    answer = bench.call("Counter", "count", steps, seconds=CALL_SECONDS + 60.0, said=said)
    # each call, what it must return, what happened to that counter before, and counts of two digits or more in other files
    want: list[tuple[str, int, str, set[int]]] = []
    values: dict[str, int] = {}
    before: dict[str, list[str]] = {}
    for what, name, given in steps:
        if what == "kill":
            for happened in before.values():
                happened.append("its process was killed")
        if what == "increment":
            values[name[0]] = values.get(name[0], 0) + (given[0] if given else 1)
        if what == "move":
            values[name[1]] = values.pop(name[0], 0)
        if what in ("increment", "value"):
            call, right = f"{what}({', '.join(map(str, given))})", values.get(name[0], 0)
            happened = before.setdefault(name, [])
            others = {count for letter, count in values.items() if letter != name[0] and abs(count) > 9}
            want.append((call, right, ", ".join(happened[-3:]), others))
            happened.append(f"{call} = {right}")
    if answer["dead"] is not None:
        text = f"{label}. A counter died, although nothing had killed it. Look for an error, for example in __init__."
        if any(what == "kill" for what, _, _ in steps[: answer["dead"]]):
            text = (
                f"{label}. After its process was killed, a counter did not come back. Ray restarts an actor at most "
                "max_restarts times, and the default is 0. Set max_restarts=-1, and do not raise in __init__."
            )
        raise Lost(bench.found("crash", text, "the actor is started again", "it is dead for good"))
    if answer["no_file"] is not None:
        text = (
            f"{label}. A counter had counted and ended. Then there was no file at the path that it was given. Store the "
            "count in the file `path`, and nowhere else."
        )
        raise Lost(bench.found("wrong_result", text, "a file at the path", "no file"))
    for got, (call, right, since, others) in zip(answer["answers"], want, strict=True):
        if type(got) is not int or got != right:
            text = f"{label}. {call} returned {told(got)} instead of {right}{f' (after {since})' if since else ''}."
            if mixed := [each for each in others if got in (each, each + right)]:
                text += f" The other counter, which has another path, had counted {mixed[0]}."
            raise Lost(bench.found("wrong_result", text, str(right), told(got)))
    return _steps_chart(label, steps)


def _kill(bench: RayBench, label: str) -> int:
    """Kill all actors' processes, and wait until Ray has noticed. How many there were."""
    driver = bench.driver
    alive = {actor["id"]: actor["pid"] for actor in driver.actors() if actor["state"] == "ALIVE"}
    if not alive:
        text = f"{label}. Ray knows no living actor. Make Counter an actor class with ray.remote."
        raise Lost(bench.found("wrong_result", text, "an actor", "none"))
    for pid in alive.values():
        driver.kill(pid)
    until = time.monotonic() + 30.0
    while time.monotonic() < until:
        now = {actor["id"]: actor for actor in driver.actors()}
        if all(now[each]["state"] == "DEAD" or now[each]["pid"] not in (0, pid) for each, pid in alive.items()):
            break
        time.sleep(0.05)
    return len(alive)


def _steps_chart(label: str, steps: Sequence[Step]) -> Chart:
    names = list(dict.fromkeys(name for what, name, _ in steps if name and what != "move"))
    chart = Chart(tuple(f"counter {name}" for name in names), end=float(len(steps)), subtitle=label)
    for at, (what, name, given) in enumerate(steps):
        if what == "move":
            continue
        for lane in [name] if name else names:
            text = "killed" if what == "kill" else f"{what} {' '.join(map(str, given))}".strip()
            became: Became = "died" if what in ("kill", "drop") else "done"
            chart.bars.append(Bar(f"counter {lane}", at + 0.05, at + 0.95, text, became))
    return chart


def _counts(bench: RayBench) -> Chart:
    rng = bench.rng("counts")
    by = [rng.randrange(2, 50) for _ in range(4)]
    label = (
        "Two counters, each with a file of its own, a later one with a file that is there, and one with that file moved"
    )
    return _counted(bench, label, [
        ("make", "a", ()), ("value", "a", ()), ("increment", "a", ()), ("increment", "a", (by[0],)), ("make", "b", ()),
        ("increment", "b", (by[1],)), ("value", "a", ()), ("increment", "a", (-by[2],)), ("value", "b", ()),
        ("increment", "b", (0,)), ("drop", "a", ()), ("make", "a2", ()), ("value", "a2", ()), ("increment", "a2", (by[3],)),
        ("value", "b", ()), ("drop", "a2", ()), ("move", "ac", ()), ("make", "c", ()), ("value", "c", ()),
    ])  # fmt: skip


def _restarts(bench: RayBench) -> Chart:
    rng = bench.rng("restarts")
    steps: list[Step] = [("make", "a", ()), ("make", "b", ())]
    now = 0
    for then in (rng.randrange(100, 900), 0, -rng.randrange(11, 100), rng.randrange(2, 50)):
        steps += [("increment", "a", (then - 1 - now,)), ("increment", "b", ()), ("increment", "a", ())]
        now = then  # with fewer digits, back to zero, and below: all of it must be read as it was written
        steps += [("kill", "", ()), ("value", "a", ()), ("value", "b", ())]
    label = "Two counters; their processes are killed four times, each time between two calls"
    return _counted(bench, label, [*steps, ("increment", "b", (3,))])


Judge = Callable[[RayBench], Chart]
CHECKS: tuple[tuple[str, str, float, Judge], ...] = (
    ("right", "Results in the order of the items; no item, one, equal ones, lists", 3, _right),
    ("in_flight", "Never more than max_in_flight tasks at a time", 3, _in_flight),
    ("parallel", "As many at a time as may be", 3, _parallel),
    ("retried", "A killed worker's task runs again", 3, _retried),
    ("put_once", "What fn has captured is serialized once, not for each item", 3, _once),
    ("counts", "Counter counts, each in its own file", 2, _counts),
    ("restarts", "A counter's process is killed, and it counts on", 3, _restarts),
)

IN_BOX = Path(__file__).with_name("in_box.py")

EXERCISE = Exercise(
    name="ray_tasks",
    chapter="13",
    title="Ray tasks and an actor that comes back",
    minutes=50,
    difficulty=2,
    cost="tens of seconds",
    world=Ray(("process_all", "Counter"), in_box=IN_BOX),
    checks=tuple(Check(name, title, points, once_more(judge)) for name, title, points, judge in CHECKS),
)
