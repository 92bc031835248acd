"""The verdicts on all example submissions, recorded as JSON lines and compared: what a change must not change.

A file an exercise; each line says of one submission ("reference", "right/NAME" or "wrong/NAME") its points and
seconds, and of each check null where it passed, else status, kind, message, rank, line, expected and got.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import multiprocessing
import os
import re
import signal
import time
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import grader
from grader import grading, registry, submission
from grader.authoring import wrong
from grader.authoring.wrong import Wrong
from grader.exercise import SCHEDULES
from grader.ranks.engines import Engines
from grader.sandbox import supervise, usage
from grader.submission import BadRequest, Submission
from grader.verdict import Verdict

SEED = 1
SORTS = ("reference", "right", "wrong")
SHARES = 16  # the tests try one of so many shares of all wrong submissions a day
Row = dict[str, Any]
Item = tuple[str, str]  # an exercise and a submission to it, "wrong/whole_tensors"
Seeded = tuple[str, str, int]  # the same, and the seed of the grading


@dataclass(frozen=True)
class Wanted:
    """Which submissions: of these exercises (all, if none is named), of these sorts, and of these but a share."""

    names: Sequence[str] = ()
    sorts: Sequence[str] = SORTS
    share: tuple[int, int] = (1, 1)

    def items(self) -> list[Item]:
        """Every submission that is wanted. Raises BadRequest."""
        unknown = [sort for sort in self.sorts if sort not in SORTS]
        if unknown:
            raise BadRequest(f"no kind of submission is called {unknown[0]!r}; choose from {', '.join(SORTS)}")
        found = [(name, each) for name in self.names or registry.names() for each in submissions(name)]
        return [(name, each) for name, each in found if self.includes(name, each)]

    def includes(self, name: str, each: str) -> bool:
        """Whether a submission of this exercise is one of them, if it is there at all."""
        mine, shares = self.share
        sort = each.partition("/")[0]
        return sort in self.sorts and (sort == wrong.REFERENCE or share(f"{name}/{each}", shares) == mine)


def share(id_: str, shares: int) -> int:
    """In which share something is, from 1 on: always the same, and as good as drawn."""
    return zlib.crc32(id_.encode()) % shares + 1


def parse_share(text: str) -> tuple[int, int]:
    """ "1/6" as (1, 6). Raises BadRequest."""
    found = re.fullmatch(r"(\d{1,4})/(\d{1,4})", text)
    if not found or not 1 <= int(found[1]) <= int(found[2]):
        raise BadRequest(f"write the share like 1/6, not {text!r}")
    return int(found[1]), int(found[2])


def submissions(name: str) -> list[str]:
    """The example submissions to an exercise. Raises BadRequest."""
    others = [f"right/{path.stem}" for path in wrong.right(name)]
    return [wrong.REFERENCE, *others, *(f"wrong/{each.name}" for each in wrong.wrongs(name))]


def handed_in(name: str, each: str) -> Submission:
    """One of them."""
    sort, _, stem = each.partition("/")
    if sort == "wrong":
        return wrong.find(f"{name}/{stem}").submission
    if sort == "right":
        path = registry.folder(name) / "right" / f"{stem}.py"
        return submission.read(path, registry.find(name).function_names)
    if each != wrong.REFERENCE:
        raise BadRequest(f"{each!r} is no submission to {name}; write reference, right/NAME or wrong/NAME")
    return wrong.reference(name)


def row(each: str, verdict: Verdict) -> Row:
    """What is kept of a verdict."""
    checks: dict[str, list[Any] | None] = {}
    for check in verdict.checks:
        told = check.diagnosis
        why = [told.kind, told.message, told.rank, told.line, told.expected, told.got] if told else []
        checks[check.name] = None if check.status == "pass" else [check.status, *why]
    return {"submission": each, "points": verdict.points, "seconds": round(verdict.seconds, 2), "checks": checks}


def missed(each: Wrong, verdict: Verdict) -> str:
    """What a verdict on a wrong submission should say and does not; empty where it is caught for its reason."""
    found = verdict.check(each.check).diagnosis
    lost = [check.name for check in verdict.checks if check.status != "pass"]
    if found is None:
        return f"'{each.check}' does not catch it"
    if found.kind not in each.kinds:
        return f"'{each.check}' says {found.kind}, but must say {' or '.join(each.kinds)}"
    if each.only and lost != [each.check]:
        return f"only '{each.check}' may lose points, but {', '.join(lost)} lost points"
    return ""


def differences(before: Row, now: Row) -> list[str]:
    """What is not the same, a line each; seconds do not count."""
    found = []
    for check in {**before["checks"], **now["checks"]}:
        told = [_told(each["checks"], check) for each in (before, now)]
        if told[0] != told[1]:
            found += [f"  {check}", f"    before: {told[0]}", f"    now:    {told[1]}"]
    if not found and before["points"] != now["points"]:
        found = [f"  points: {before['points']:g} before, {now['points']:g} now"]
    return found


def _told(checks: Mapping[str, list[Any] | None], check: str) -> str:
    if check not in checks:
        return "there is no such check"
    told = checks[check]
    return "pass" if told is None else json.dumps(told, ensure_ascii=False)


def read(folder: Path, names: Iterable[str]) -> dict[Item, Row]:
    """What is recorded in a folder; of one submission the last. A line that was cut off is none."""
    found = {}
    for name in names:
        path = folder / f"{name}.jsonl"
        for line in path.read_text().splitlines() if path.exists() else ():
            with contextlib.suppress(ValueError):
                each = json.loads(line)
                found[name, each["submission"]] = each
    return found


Show = Callable[[str], None]


def record(wanted: Wanted, at: Path, jobs: int, show: Show) -> None:
    """Grade what is not recorded in the folder yet, and record it."""
    items = wanted.items()
    known = read(at, {name for name, _ in items})
    todo = [item for item in items if item not in known]
    if len(todo) < len(items):
        show(f"{len(items) - len(todo)} of {len(items)} are recorded in {at} already")
    for _ in _recorded(todo, at, jobs, show):
        pass


def compare(wanted: Wanted, at: Path, jobs: int, show: Show) -> int:
    """Grade what is recorded, and show how many verdicts are not what they were, and which.

    What differs is graded a second time, and that counts: a busy machine is no difference. What was graded by the very
    same files of ours is kept, so that this goes on where it was interrupted.
    """
    items = wanted.items()
    names = sorted({name for name, _ in items})
    before = {item: row for item, row in read(at, names).items() if wanted.includes(*item)}
    if not before:
        raise BadRequest(f"{at}: holds no verdict on any of {len(items)} submissions; use --record first")
    if new := len(set(items) - set(before)):
        show(f"{new} of {len(items)} are not recorded in {at}, and are skipped")
    kept = at / f".now-{version()}"
    now = read(kept, names)
    todo = [item for item in items if item in before and item not in now]
    if len(now):
        show(f"{len(now)} were already graded with the same files")
    now |= dict(_recorded(todo, kept, jobs, show))
    again = [item for item in items if item in before and differences(before[item], now[item])]
    if again:
        show(f"{len(again)} differ, and are graded once more")
    now |= dict(_recorded(again, kept, jobs, show))
    different = 0
    for item, old in before.items():
        told = differences(old, now[item]) if item in items else ["  there is no such submission any more"]
        if told:
            different += 1
            show("\n".join([f"{item[0]} {item[1]}", *told]))
    unsteady = len(again) - sum(item in items and bool(differences(before[item], now[item])) for item in again)
    at_first = f", {unsteady} different only the first time" if unsteady else ""
    show(f"{len(before)} compared, {different} different{at_first}")
    return different


def version() -> str:
    """A sum of all files that decide verdicts, of ours."""
    package = Path(grader.__file__).parent
    total = hashlib.sha256()
    for path in sorted(path for path in package.rglob("*") if path.suffix in (".py", ".md")):
        total.update(f"{path.relative_to(package)}\0".encode() + path.read_bytes() + b"\0")
    return total.hexdigest()[:12]


def _recorded(items: Sequence[Item], folder: Path, jobs: int, show: Show) -> Iterator[tuple[Item, Row]]:
    """Grade them, in whatever order they end, and write down each at once."""
    folder.mkdir(parents=True, exist_ok=True)
    began = time.monotonic()
    for number, ((*names, _), row) in enumerate(graded([(*item, SEED) for item in items], jobs), 1):
        item = names[0], names[1]
        with (folder / f"{item[0]}.jsonl").open("a") as file:
            file.write(json.dumps(row) + "\n")
        left = (time.monotonic() - began) / number * (len(items) - number)
        show(f"{number}/{len(items)} {item[0]} {item[1]}: {row['points']:g} points; {left / 60:.0f} minutes left")
        yield item, row


def graded(
    items: Sequence[Seeded], jobs: int, schedules: bool = False, named: bool = False
) -> Iterator[tuple[Seeded, Row]]:
    """Grade in `jobs` processes, each with engines of its own; in whatever order they end. Nothing is left behind where
    it is interrupted. With `schedules`, those of nodes are drawn from each seed as well; with `named`, a wrong
    submission is graded by the one check that must catch it."""
    if not items:
        return
    pool = ProcessPoolExecutor(min(jobs, len(items)), multiprocessing.get_context("spawn"), _begin)
    try:
        futures = {pool.submit(_grade, *item, item[2] if schedules else SCHEDULES, named): item for item in items}
        for future in as_completed(futures):
            yield futures.pop(future), future.result()
        pool.shutdown()
    except BaseException:
        pool.shutdown(wait=False, cancel_futures=True)
        for child in multiprocessing.active_children():
            child.terminate()
            child.join()
        raise


_engines: Engines | None = None  # of a process of the pool


def _begin() -> None:
    global _engines
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the process that asked
    supervise.prctl(supervise.PR_SET_PDEATHSIG, signal.SIGKILL)  # which may be killed, too
    asked = multiprocessing.parent_process()
    if asked is None or not asked.is_alive():  # killed before the kernel was asked to tell of it
        os._exit(1)
    _engines = Engines()


def _grade(name: str, each: str, seed: int, schedules: int, named: bool) -> Row:
    assert _engines is not None
    exercise = registry.find(name)
    if named:
        exercise = grading.only(exercise, wrong.find(f"{name}/{each.partition('/')[2]}").check)
    return row(each, grading.grade(exercise, handed_in(name, each), _engines, seed, schedules=schedules))


def cores() -> int:
    """How many gradings at a time this machine has cores for."""
    return len(usage.processors())
