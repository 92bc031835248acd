"""A thousand gradings in a row while things go wrong: every submission graded once, nothing left, memory flat.

    python benchmarks/soak.py [--quick] [--runs N] [--seed N] [--faults FACTOR]

`rankup class grade` grades a class on a small disk. At moments drawn from the seed, workers and warm hosts are killed,
the disk is full, another connection locks the gradebook, and the whole command is killed and started again, until it
says by its exit status that everything is graded. Every fault comes in the first seven tenths of the class. Then the
journal, the gradebook and the files are compared with what they should hold; right points are those of the same
submission graded in peace. Exit status: 1 if anything is not as it should be.
"""

from __future__ import annotations

import argparse
import os
import re
import sqlite3
import stat
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from _common import (
    ASSIGNMENT,
    NOTEBOOK,
    ROOT,
    HandedIn,
    alone,
    below,
    environment,
    goal,
    grade_command,
    make_class,
    mixture,
    records,
    save,
)
from _faults import KINDS, Injector, plan, small_disk, why_not_inside
from _memory import Follower

from grader import grading, registry
from grader.ranks.engines import Engines
from grader.sandbox import supervise
from grader.submission import Submission

RUNS, QUICK_RUNS = 1000, 16
WRONG, ENDLESS = 0.42, 0.02  # shares of the class
BYTES_A_STUDENT, MORE_BYTES = 700_000, 64_000_000
PATIENCE = 30.0  # seconds for what a run started to be gone after it
MOST_RUNS_IN_VAIN = 5
FLAT = 1.2  # last memory of a process against what it had early in its life
MORE_FILES = 8
LONG_ENOUGH = 120.0  # seconds that a process must have lived to have its memory judged
_LINE = re.compile(r"\s*\d+ of \d+  (\S+)\s+(.*)")


@dataclass
class Soak:
    """One class, and what was seen while it was graded."""

    folder: Path
    temporary: Path
    students: list[HandedIn]
    seed: int
    graded: set[str] = field(default_factory=set)
    statuses: list[int] = field(default_factory=list)
    said: Counter[str] = field(default_factory=Counter)
    stderr: list[str] = field(default_factory=list)
    problems: list[str] = field(default_factory=list)
    slowest_end: float = 0.0
    kept: dict[str, Any] = field(default_factory=dict)
    follower: Follower = field(default_factory=Follower)

    def grade(self, injector: Injector) -> None:
        """Run the command again and again, until it has graded everything."""
        in_vain = 0
        while in_vain < MOST_RUNS_IN_VAIN and 0 not in self.statuses:
            before, faults = len(self.kept), injector.left
            self.run(injector)
            print(f"  status {self.statuses[-1]}, {len(self.kept)} of {len(self.students)} graded", flush=True)
            in_vain = in_vain + 1 if (before, faults) == (len(self.kept), injector.left) else 0
        if 0 not in self.statuses:
            self.problems.append(f"{MOST_RUNS_IN_VAIN} runs got no further: {' '.join(self.stderr[-5:])}")

    def run(self, injector: Injector | None = None) -> list[str]:
        """One run of the command, and the check that it leaves no process and changes no verdict; what it said."""
        environ = environment(RANKUP_CLASS=self.folder, TMPDIR=self.temporary, RANKUP_DATA=self.temporary.parent)
        with open(self.temporary.parent / "stderr", "w+") as errors:
            process = subprocess.Popen(
                grade_command("--seed", str(self.seed)), cwd=ROOT, env=environ, stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE, stderr=errors, text=True, start_new_session=True,
            )  # fmt: skip
            if injector is not None:
                injector.run = process
            assert process.stdout is not None
            lines = []
            try:
                for line in process.stdout:
                    lines.append(line)
                    self._hear(line)
                    self.follower.look(process.pid)
                    if injector is not None:
                        injector.count = len(self.graded)
                self.statuses.append(process.wait())
            except BaseException:
                supervise.kill_tree(process.pid)
                process.wait()
                raise
            finally:
                process.stdout.close()
                if injector is not None:
                    injector.run = None
            errors.seek(0)
            self.stderr += errors.read().splitlines()
        self._gone()
        self._compare()
        return lines

    def _hear(self, line: str) -> None:
        found = _LINE.match(line)
        if not found:
            return
        why = re.search(r"(not graded|graded, but not written): (.*)", found[2])
        if why:
            self.said[f"{why[1]}: {why[2]}"] += 1
        else:
            self.graded.add(found[1])

    def _gone(self) -> None:
        """Wait until the run's last process has ended."""
        began = time.monotonic()
        while (there := below()) and time.monotonic() - began < PATIENCE:
            time.sleep(0.05)
        self.slowest_end = max(self.slowest_end, time.monotonic() - began)
        if there:
            self.problems.append(
                f"{len(there)} processes were still there {PATIENCE:g} s after run {len(self.statuses)}"
            )
            for pid in there:
                supervise.kill_tree(pid)

    def _compare(self) -> None:
        """No verdict that was there before may have changed."""
        found = records(self.folder)
        now = {
            student: (record["points"], record["seconds"], record["worker"], record["verdict"]["verdict"])
            for student, record in found.items()
            if record["points"] is not None
        }
        twice = [student for student, kept in self.kept.items() if now.get(student) != kept]
        if twice:
            self.problems.append(f"graded twice, or lost, by run {len(self.statuses)}: {', '.join(twice)}")
        self.kept = now

    def _told(self, student: str) -> str:
        """What a verdict says."""
        if student not in self.kept:
            return ", and has no verdict"
        points, _, _, verdict = self.kept[student]
        said = {check["diagnosis"]["message"] for check in verdict["checks"] if check["diagnosis"]}
        return f", and has {points:g}: {' '.join(sorted(said))}"

    def check(self, points: dict[str, float], before: set[str]) -> None:
        """Compare what there is with what there should be; `before` are the files that were there at first."""
        last = self.run()
        if self.statuses[-1] or not any(f" 0 to grade, {len(self.students)} graded before" in line for line in last):
            self.problems.append(f"one more run did not find everything graded: {''.join(last[:1])}")
        grades = _gradebook(self.folder / "gradebook.db")
        checks = len(registry.find(NOTEBOOK).checks)
        for each in self.students:
            right = points[each.name]
            if self.kept.get(each.student, (None,))[0] != right:
                self.problems.append(
                    f"{each.student} ({each.name}) should have {right:g} points{self._told(each.student)}"
                )
            has, should = grades.get(each.student), (1, checks, right, 0)
            if has != should:
                what = "notebooks, grades, points, by hand"
                self.problems.append(f"{each.student}: the gradebook has {has} and not {should} ({what})")
        there = files(self.folder)
        if odd := sorted((there ^ before) ^ _written(self.students)):
            self.problems.append(f"files that were left, or are missing: {', '.join(odd[:10])}")
        if odd := sorted(files(self.temporary)):
            self.problems.append(f"temporary files that were left: {', '.join(odd[:10])}")


def _written(students: Sequence[HandedIn]) -> set[str]:
    """The files that grading adds to a class."""
    made = {".grading.lock", f"journal/{ASSIGNMENT}/.class.json", f"overview/{ASSIGNMENT}.html"}
    for each in students:
        made.add(f"journal/{ASSIGNMENT}/{each.student}/{NOTEBOOK}.json")
        made.add(f"autograded/{each.student}/{ASSIGNMENT}/{NOTEBOOK}.ipynb")
        made.add(f"feedback/{each.student}/{ASSIGNMENT}/{NOTEBOOK}.html")
    return made


def files(folder: Path) -> set[str]:
    """All that is no folder: sockets, links and pipes too."""
    return {str(path.relative_to(folder)) for path in folder.rglob("*") if not stat.S_ISDIR(path.lstat().st_mode)}


def _gradebook(path: Path) -> dict[str, tuple[int, int, float, int]]:
    """By student: notebooks, grades, points, and grades that a person must look at."""
    book = sqlite3.connect(path)
    try:
        rows = book.execute(
            "select a.student_id, count(distinct s.id), count(g.id), sum(g.auto_score), sum(g.needs_manual_grade) "
            "from grade g join submitted_notebook s on s.id = g.notebook_id join notebook n on n.id = s.notebook_id "
            "join submitted_assignment a on a.id = s.assignment_id where n.name = ? group by a.student_id",
            (NOTEBOOK,),
        )
        return {student: (notebooks, grades, points, hand) for student, notebooks, grades, points, hand in rows}
    finally:
        book.close()


def in_peace(students: Sequence[HandedIn], seed: int) -> dict[str, float]:
    """The points of each source, by its name."""
    found = registry.find(NOTEBOOK)
    with Engines() as engines:
        each = {student.name: student.source for student in students}
        return {n: grading.grade(found, Submission(text, n), engines, seed).points for n, text in each.items()}


def show(soak: Soak, injector: Injector, seconds: float) -> list[dict[str, Any]]:
    print(f"\n{len(soak.students)} submissions, {len(soak.statuses)} runs, {seconds:.0f} s; injected:")
    for kind, count in injector.done.items():
        print(f"{count:6} x  {KINDS[kind]}")
    print("seen:")
    killed = sum(status == -9 for status in soak.statuses)
    print(f"{killed:6} x  a run that was killed; its last process was gone after {soak.slowest_end:.1f} s at most")
    for what, count in soak.said.most_common():
        print(f"{count:6} x  {what.strip()}")
    for line in soak.stderr[:20]:
        print(f"        on stderr: {line}")
    print(f"\n{'longest lived':14} {'seconds':>8} {'first MiB':>10} {'last MiB':>9} {'files':>6} {'last':>5}")
    lives = soak.follower.longest()
    for life in lives:
        print(
            f"{life['kind']:14} {life['seconds']:8.0f} {life['first_bytes'] / 2**20:10.1f} "
            f"{life['last_bytes'] / 2**20:9.1f} {life['first_files']:6} {life['last_files']:5}"
        )
    print()
    return lives


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--runs", type=int, help=f"gradings, {RUNS} if left out")
    parser.add_argument("--quick", action="store_true", help=f"only {QUICK_RUNS}: to try the program")
    parser.add_argument("--seed", type=int, default=1, help="of the class, the faults and the inputs")
    parser.add_argument("--faults", type=float, default=1.0, help="so many times as many faults")
    given = parser.parse_args(arguments)
    runs = given.runs or (QUICK_RUNS if given.quick else RUNS)
    no_disk = why_not_inside()
    wrong, endless = int(runs * WRONG), max(1, int(runs * ENDLESS))
    students = mixture(runs - wrong - endless, wrong, endless, given.seed)
    faults = plan(runs, given.faults, given.seed, [kind for kind in KINDS if kind != "disk" or not no_disk])
    planned = len(faults)
    with alone() as room, ExitStack() as stack:
        if no_disk:
            print(f"The disk is never full in this soak: no small one can be made here ({no_disk}).")
        else:
            stack.enter_context(small_disk(room / "class", MORE_BYTES + runs * BYTES_A_STUDENT))
        (room / "tmp").mkdir()
        soak = Soak(room / "class", room / "tmp", students, given.seed)
        print(f"{runs} submissions, seed {given.seed}, {planned} faults, {len(os.sched_getaffinity(0))} processors")
        points = in_peace(students, given.seed)
        make_class(soak.folder, students)
        there = files(soak.folder)
        injector = Injector(faults, soak.folder, given.seed)
        began = time.monotonic()
        injector.start()
        try:
            soak.grade(injector)
        finally:
            injector.stop()
        seconds = time.monotonic() - began
        soak.check(points, there)
        size = sum(path.lstat().st_size for path in soak.folder.rglob("*"))
    lives = show(soak, injector, seconds)
    if injector.error or injector.left:
        soak.problems.append(f"{injector.left} faults were not injected {injector.error}".strip())
    print(f"{'NOT met' if soak.problems else 'met':8} everything graded once, with the right points, and nothing left")
    for problem in soak.problems:
        print(f"         {problem}")
    goals = []
    for life in lives:
        if life["seconds"] < LONG_ENOUGH:
            print(f"         the memory of a {life['kind']} that lived for {life['seconds']:.0f} s is not judged")
            continue
        growth, more = life["last_bytes"] / life["first_bytes"], life["last_files"] - life["first_files"]
        goals.append(goal(f"memory of the longest lived {life['kind']}, last to first", growth, FLAT, " x"))
        goals.append(goal(f"more open files of the longest lived {life['kind']}", more, MORE_FILES, ""))
    data = {"runs": runs, "seed": given.seed, "seconds": seconds, "statuses": soak.statuses, "problems": soak.problems}
    data |= {"injected": dict(injector.done), "seen": dict(soak.said), "lives": lives, "goals": goals, "bytes": size}
    save("soak", data)
    if soak.problems:
        sys.exit(1)


if __name__ == "__main__":
    main()
