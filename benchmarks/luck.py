"""How much of a verdict is luck: every wrong solution graded with many seeds, and how often it gets full marks, or
loses other points than with the first of them.

    python benchmarks/luck.py [--exercises raft ...] [--seeds N] [--share 3/16] [--jobs N] [--schedules]
                              [--right | --named]

Without `--seeds` 30, and 10 of exercises whose verdict costs seconds or more. What was graded is kept in build/bench,
so that this goes on where it was interrupted, for as long as no file that decides verdicts has changed. The schedules
of nodes are the same in every grading. With `--schedules` each seed draws others: what only some of them show needs a
situation that is built on purpose. `--share` takes some of the solutions, of all exercises alike: all of them with all
seeds take a day and more. `--right` has the right solutions graded in place of the wrong ones: each must have
full marks with every seed. `--named` asks less and takes a fraction of the time: each wrong solution is graded by the
one check that must catch it, and whole only with the seeds with which that check does not. Then only these count as
other points. Exit status 1 where a goal is not met.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import sys
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

from _common import BUILD, goal, save

from grader import registry
from grader.authoring import verdicts, wrong
from grader.authoring.verdicts import Row, Seeded, Wanted
from grader.submission import BadRequest

SEEDS, FEW_SEEDS = 30, 10
MOST_CHANGED = 1.0  # percent of pairs of a solution and a seed
Rows = dict[Seeded, Row]


def seeds(name: str, wanted: int | None) -> range:
    count = wanted or (SEEDS if registry.find(name).cost == "second" else FEW_SEEDS)
    return range(1, count + 1)


def kept(folder: Path) -> Iterator[tuple[Seeded, Row]]:
    """What was graded before by the same files."""
    for path in folder.glob("*.jsonl"):
        for line in path.read_text().splitlines():
            with contextlib.suppress(ValueError):  # a line that was cut off
                row = json.loads(line)
                yield (path.stem, row["submission"], row["seed"]), row


def measure(items: Sequence[Seeded], jobs: int, schedules: bool, named: bool = False) -> Rows:
    folder = BUILD / f"luck-{'schedules-' * schedules}{'named-' * named}{verdicts.version()}"
    folder.mkdir(parents=True, exist_ok=True)
    known = dict(kept(folder))
    todo = [item for item in items if item not in known]
    for number, (item, row) in enumerate(verdicts.graded(todo, jobs, schedules, named), 1):
        known[item] = row = {**row, "seed": item[2]}
        with (folder / f"{item[0]}.jsonl").open("a") as file:
            file.write(json.dumps(row) + "\n")
        if number % 50 == 0:
            print(f"{number}/{len(todo)}", file=sys.stderr, flush=True)
    return {item: known[item] for item in items}


def lost(row: Row) -> tuple[str, ...]:
    """The checks that cost points."""
    return tuple(check for check, told in row["checks"].items() if told is not None)


def table(rows: Rows) -> tuple[int, int]:
    """Print, per exercise and check, what luck did. How many pairs had full marks, and how many others changed."""
    pairs: dict[tuple[str, str], int] = defaultdict(int)
    full: dict[tuple[str, str], list[Seeded]] = defaultdict(list)
    changed: dict[tuple[str, str], list[Seeded]] = defaultdict(list)
    for item, row in rows.items():
        name, each, _ = item
        place = name, wrong.find(f"{name}/{each.partition('/')[2]}").check
        pairs[place] += 1
        if not lost(row):
            full[place].append(item)
        elif lost(row) != lost(rows[name, each, 1]):
            changed[place].append(item)
    print(f"{'exercise':24} {'check':16} {'pairs':>6} {'full marks':>11} {'other points':>13}")
    for place, count in pairs.items():
        shares = "".join(f" {len(found[place]):6} {len(found[place]) / count:5.1%}" for found in (full, changed))
        print(f"{place[0]:24} {place[1]:16} {count:6}{shares}")
        for what, found in (("full marks", full[place]), ("other points", changed[place])):
            for each, with_seeds in _by_solution(found):
                print(f"    {what}: {each} with seed {', '.join(map(str, with_seeds))}")
    return sum(map(len, full.values())), sum(map(len, changed.values()))


def _by_solution(found: Iterable[Seeded]) -> Iterator[tuple[str, list[int]]]:
    grouped: dict[str, list[int]] = defaultdict(list)
    for _, each, seed in found:
        grouped[each].append(seed)
    yield from grouped.items()


def main() -> None:
    options = argparse.ArgumentParser(description=(__doc__ or "").split("\n\n")[0])
    options.add_argument("--exercises", nargs="+", default=registry.names(), choices=registry.names(), metavar="NAME")
    options.add_argument("--seeds", type=int, help=f"default {SEEDS}, of costly exercises {FEW_SEEDS}")
    options.add_argument("--share", default="1/1", help="of the solutions, like 3/16")
    options.add_argument("--jobs", type=int, default=verdicts.cores())
    options.add_argument("--schedules", action="store_true", help="draw the schedules of nodes as well")
    which = options.add_mutually_exclusive_group()
    which.add_argument("--right", action="store_true", help="right solutions in place of wrong ones")
    which.add_argument("--named", action="store_true", help="only the check that must catch a wrong solution")
    given = options.parse_args()
    sorts = ("reference", "right") if given.right else ("wrong",)
    try:
        there = Wanted(given.exercises, sorts, verdicts.parse_share(given.share)).items()
    except BadRequest as error:
        options.error(str(error))
    items = [(name, each, seed) for name, each in there for seed in seeds(name, given.seeds)]
    rows = measure(items, given.jobs, given.schedules, given.named)
    if given.named:
        missed = [item for item, row in rows.items() if not lost(row)]
        rows |= measure(missed, given.jobs, given.schedules)
    if given.right:
        refused = [(item, lost(row)) for item, row in rows.items() if lost(row)]
        for (name, each, seed), checks in refused:
            print(f"{name} {each} with seed {seed} loses {', '.join(checks)}")
        goals = [goal(f"right solutions refused, of {len(rows)} gradings", len(refused), 0, "")]
    else:
        full, changed = table(rows)
        goals = [
            goal(f"wrong solutions with full marks, of {len(rows)} gradings", full, 0, ""),
            goal("of them lose other points than with the first seed", 100 * changed / len(rows), MOST_CHANGED, " %"),
        ]
    save("luck_right" if given.right else "luck", {"goals": goals, "pairs": len(rows)})
    sys.exit(not all(each["met"] for each in goals))


if __name__ == "__main__":
    main()
