"""How many transactions per second are checked, against length, contention and what is wrong.

    python benchmarks/isolation.py [--quick] [--repeat N]

Histories are those of simulated stores (grader/nodes/histories/transactions/stores.py), with up to 4 operations a
transaction, checked for strict serializability: version orders, all edges, also those of time and of processes, every
anomaly with its smallest witness, and in words. Fewer keys and more clients mean more contention. A store at a weaker
level gives a history with anomalies, often thousands of them, in which most transactions are on some cycle. "reading"
is the time for the same history as JSON lines and as EDN. Times are CPU times of one core; histories of the longest
length are made once. No other checker of these histories was found on PyPI: Elle runs on the JVM.
"""

from __future__ import annotations

import argparse
import re
import resource
import statistics
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from _common import goal, save

from grader.nodes.histories.transactions import check, reading, stores, telling

LONGEST = 100_000
MOST_SECONDS = 60


@dataclass(frozen=True)
class Sort:
    """Histories of one sort."""

    level: str
    transactions: int
    keys: int
    clients: int
    writes: int = 64
    workload: str = "list-append"


SORTS = (
    *(Sort("serializable", count, 10, 10) for count in (1000, 10_000, 30_000, LONGEST)),
    *(Sort("serializable", 30_000, *contention) for contention in ((3, 5), (3, 50), (100, 50), (1000, 200))),
    Sort("serializable", 30_000, 10, 10, 512),
    *(Sort(level, count, 10, 20) for level in stores.LEVELS[1:-1] for count in (10_000, LONGEST)),
    Sort("serializable", LONGEST, 10, 10, 64, "rw-register"),
    Sort("uncommitted", LONGEST, 10, 20, 64, "rw-register"),
)  # fmt: skip


def timed(work: Callable[[], Any]) -> tuple[float, Any]:
    """CPU seconds, which other work on the machine does not change much, and what came out."""
    started = time.process_time()
    found = work()
    return time.process_time() - started, found


def edn(text: str) -> str:
    """JSON lines as EDN, as Jepsen writes them."""
    text = re.sub(r'"(\w[\w-]*)":', r":\1", text)
    return re.sub(r'"([a-z]\w*)"', r":\1", text).replace("null", "nil")


def measure(sort: Sort, repeat: int) -> dict[str, Any]:
    """Medians over `repeat` histories of one sort."""
    checks, kinds, operations, reads = [], 0, 0, 0
    texts: list[str] = []
    for seed in range(repeat):
        history = stores.simulate(
            sort.level, seed, sort.transactions, sort.keys, sort.writes, clients=sort.clients, workload=sort.workload
        )
        operations = sum(len(one.ops) for one in history)
        reads = sum(len(op.value) for one in history for op in one.ops if isinstance(op.value, tuple))

        def work(history: list[Any] = history) -> int:
            by_index = {one.index: one for one in history}
            found = check(history, "strict-serializable", sort.workload).anomalies
            texts.extend(telling.sentence(one, by_index) for one in found)
            return len(found)

        seconds, kinds = timed(work)
        assert bool(kinds) == (sort.level != "serializable"), "a wrong verdict"
        checks.append(seconds)
    as_json = reading.dump(history)
    seconds_json, again = timed(lambda: reading.parse(as_json, sort.workload))
    seconds_edn, same = timed(lambda: reading.parse(edn(as_json), sort.workload))
    assert [one.ops for one in again] == [one.ops for one in same], "EDN is read differently"
    seconds = statistics.median(checks)
    return {
        **asdict(sort), "operations": operations, "elements_read": reads, "kinds": kinds, "seconds": seconds,
        "most": max(checks), "per_second": len(history) / seconds, "reading_json": seconds_json,
        "reading_edn": seconds_edn, "memory": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024,
    }  # fmt: skip


def told(row: dict[str, Any]) -> str:
    return (
        f"{row['level']:20} {row['workload']:11} {row['transactions']:8,} {row['keys']:5} {row['clients']:4} "
        f"{row['writes']:6} {row['elements_read']:11,} {row['kinds']:5} | {row['seconds']:7.2f} "
        f"{row['per_second']:9,.0f} | {row['reading_json']:6.2f} {row['reading_edn']:6.2f} | "
        f"{row['memory'] / 2**20:5.0f}"
    )


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument(
        "--repeat", type=int, default=3, help="histories of each sort (the longest: 1); medians are printed"
    )
    parser.add_argument("--quick", action="store_true", help="no history of more than 10,000 transactions")
    given = parser.parse_args(arguments)
    print(f"{'':74} | {'check':>17} | {'reading, s':>13} |")
    print(
        f"{'store':20} {'workload':11} {'txns':>8} {'keys':>5} {'cl.':>4} {'writes':>6} {'read values':>11} kinds "
        f"| {'seconds':>7} {'txns/s':>9} | {'JSON':>6} {'EDN':>6} | {'MiB':>5}"
    )
    rows = []
    for sort in SORTS:
        if sort.transactions <= 10_000 or not given.quick:
            rows.append(measure(sort, given.repeat if sort.transactions < LONGEST else 1))
            print(told(rows[-1]), flush=True)
    print()
    longest = [row for row in rows if row["transactions"] == max(row["transactions"] for row in rows)]
    slowest = max(row["most"] + max(row["reading_json"], row["reading_edn"]) for row in longest)
    count = longest[0]["transactions"]
    goals = [
        goal(f"{count:,} transactions read and checked, the slowest sort", slowest, MOST_SECONDS, " s of CPU"),
        goal("the greatest memory of the whole run", rows[-1]["memory"] / 2**30, 2, " GiB"),
    ]
    save("isolation", {"rows": rows, "goals": goals})
    sys.exit(not all(one["met"] for one in goals))


if __name__ == "__main__":
    main()
