"""A class of 60: `rankup class grade`, next to plain `nbgrader autograde` of notebooks that assert the usual way.

    python benchmarks/class.py [--quick] [--full] [--repeat N]

Half of the class is right, three never end, the others make the mistakes of demo/. Every run is cold: a new process, a
new class folder, a new gradebook; making these is not counted. The baseline's notebooks (_plain.py) start ranks with
torch.multiprocessing, join them with a timeout of 30 seconds and assert values; what no assert can see (bytes,
messages, rounds, requests never waited for) they leave out. As that takes minutes, it is measured on a few students,
and what it would take for the whole class is reckoned from them: those that end and those that hang, each by their
mean. --full measures it on all. Memory is that of all processes together, with
shared pages counted once, in a run of its own.
"""

from __future__ import annotations

import argparse
import os
import statistics
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import _plain
from _common import (
    MAX_POINTS,
    HandedIn,
    Ran,
    alone,
    environment,
    goal,
    grade_command,
    make_class,
    mixture,
    records,
    run,
    save,
)

CLASS = {"right": 30, "wrong": 27, "endless": 3}
QUICK = {"right": 4, "wrong": 3, "endless": 1}
FEW = ("ada", "bela", "batches", "chen", "emma", "ivan")  # 3 right, 2 mistakes that end, 1 that does not
QUICK_FEW = ("ada", "ivan")
QUICK_TIMEOUT = 15
HANGS = ("dmitri", "ivan", "never_ending_loop", "polls_is_completed")  # on real processes: until the timeout


def graded(folder: Path, students: Sequence[HandedIn], memory: bool = False) -> tuple[Ran, dict[str, dict[str, Any]]]:
    """Grade a new class with `rankup class grade`: the run, and the journal. Ends us if a verdict is wrong."""
    make_class(folder, students)
    done = run(grade_command(), environment(RANKUP_CLASS=folder), memory=memory)
    found = records(folder)
    wrong = [each for each in students if not _judged(each, found.get(each.student, {}))]
    if done.status or wrong:
        told = "".join(f"{each.student} ({each.name}) has no verdict, or a wrong one\n" for each in wrong)
        sys.exit(f"rankup class grade: status {done.status}\n{told}{done.text}")
    return done, found


def _judged(student: HandedIn, record: dict[str, Any]) -> bool:
    points = record.get("points")
    return points is not None and (points == MAX_POINTS) == (student.sort == "right")


def ours(folder: Path, students: Sequence[HandedIn], repeat: int) -> dict[str, Any]:
    """With and without those that never end, by turns, and once more to look at the memory."""
    ending = [each for each in students if each.sort != "endless"]
    endless = [each for each in students if each.sort == "endless"]
    all_, without, own = [], [], []
    for number in range(repeat):
        print(f"rankup class grade, {len(ending)} that end", flush=True)
        without.append(graded(folder / f"without-{number}", ending)[0].seconds)
        print(f"  {without[-1]:.1f} s\nrankup class grade, all {len(students)}", flush=True)
        done, found = graded(folder / f"all-{number}", students)
        all_.append(done.seconds)
        own += [found[each.student]["seconds"] for each in endless]
        print(f"  {all_[-1]:.1f} s", flush=True)
    print("rankup class grade, looking at its memory", flush=True)
    watched, _ = graded(folder / "watched", students, memory=True)
    print(f"  {watched.peak_bytes / 2**20:.0f} MiB, {watched.seconds:.1f} s", flush=True)
    seconds = statistics.median(all_)
    return {
        "seconds": seconds,
        "runs": all_,
        "without_endless": without,
        "per_minute": 60 * len(students) / seconds,
        "each_endless": (seconds - statistics.median(without)) / len(endless),
        "verdict_on_endless": statistics.median(own),
        "peak_bytes": watched.peak_bytes,
    }


def plain(folder: Path, students: Sequence[HandedIn], few: Sequence[str] | None, timeout: int) -> dict[str, Any]:
    """The baseline on `few` students by name (None: all), and what it would take for the class."""
    chosen = list(students) if few is None else [next(s for s in students if s.name == name) for name in few]
    print(f"nbgrader autograde, {len(chosen)} of them, joined with a timeout of {timeout} s", flush=True)
    done = _plain.grade(folder, chosen, timeout)
    for each in chosen:
        took, points = done.each[each.student], done.points[each.student]
        print(f"  {each.name:20} {each.sort:8} {took:6.1f} s {points:4g} of {sum(_plain.POINTS.values())}", flush=True)
    ending = [each.student for each in chosen if each.name not in HANGS]
    hanging = [each.student for each in chosen if each.name in HANGS]
    hangs = sum(each.name in HANGS for each in students)
    seconds = done.seconds
    if few is not None:
        seconds = done.seconds_for(ending, hanging, len(students) - hangs, hangs)
    return {
        "measured_on": len(chosen),
        "measured_seconds": done.seconds,
        "start": done.start,
        "each_ending": statistics.fmean(done.each[student] for student in ending),
        "each_hanging": statistics.fmean(done.each[student] for student in hanging),
        "students": {each.name: (done.each[each.student], done.points[each.student]) for each in chosen},
        "seconds": seconds,
        "per_minute": 60 * len(students) / seconds,
    }


def show(students: int, mine: dict[str, Any], theirs: dict[str, Any]) -> None:
    measured = "" if theirs["measured_on"] == students else f", from {theirs['measured_on']} measured"
    print(f"\n{'':44} {'rankup':>10} {'nbgrader':>10}")
    print(f"{f'seconds for the class of {students}' + measured:44} {mine['seconds']:10.1f} {theirs['seconds']:10.1f}")
    print(f"{'submissions a minute':44} {mine['per_minute']:10.1f} {theirs['per_minute']:10.2f}")
    print(f"{'seconds more for one that never ends':44} {mine['each_endless']:10.2f} {theirs['each_hanging']:10.1f}")
    print(f"{'seconds until the verdict on such a one':44} {mine['verdict_on_endless']:10.2f}")
    print(f"{'most memory, all processes, MiB':44} {mine['peak_bytes'] / 2**20:10.0f}\n")


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--quick", action="store_true", help="a class of 8, and a short timeout: to try the program")
    parser.add_argument("--full", action="store_true", help="measure the baseline on all 60: about an hour")
    parser.add_argument("--repeat", type=int, default=1, help="runs of the class; medians count")
    given = parser.parse_args(arguments)
    students = mixture(**(QUICK if given.quick else CLASS))
    few = None if given.full else QUICK_FEW if given.quick else FEW
    timeout = QUICK_TIMEOUT if given.quick else _plain.TIMEOUT
    print(f"{len(os.sched_getaffinity(0))} processors")
    with alone() as folder:
        mine = ours(folder, students, given.repeat)
        theirs = plain(folder / "plain", students, few, timeout)
    show(len(students), mine, theirs)
    ratio = mine["per_minute"] / theirs["per_minute"]
    goals = [
        goal("submissions a minute, against nbgrader", ratio, 10, " x", more=True),
        goal("seconds more for each that never ends", mine["each_endless"], 2, " s"),
        goal("most memory, all processes", mine["peak_bytes"] / 2**30, 4, " GiB"),
    ]
    save("class", {"students": len(students), "rankup": mine, "nbgrader": theirs, "ratio": ratio, "goals": goals})


if __name__ == "__main__":
    main()
