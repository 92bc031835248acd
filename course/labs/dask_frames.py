"""A sum and a mean for each key with dask.dataframe on two worker processes, one of which is killed in the middle.

    python dask_frames.py [--json]

needs Dask (`make labs LABS=dask` sets up an environment for it). A scheduler and two workers, real processes on the
loopback interface: 200,000 rows with 50 keys, in eight partitions of unequal size. The killed worker has two finished
partitions in its memory and computes a third one: nobody has made these safe, and the scheduler has them made again.
Rocklin 2015, *Dask: parallel computation with blocked algorithms and task scheduling*. About 20 s.
"""

from __future__ import annotations

import importlib.util
import logging
import os
import sys
import time
from collections import Counter
from pathlib import Path
from typing import Any

from servers import MissingError, Seen, Server, Servers, free_ports, main, until

MISSING = "Dask is not installed: make labs LABS=dask sets up an environment for it"
PATIENCE = 120  # seconds, on a machine that is busy with other things
SIZES = (5_000, 10_000, 15_000, 20_000, 30_000, 35_000, 40_000, 45_000)  # rows of each partition, 200,000 in all
KEYS = 50
FINISHED = 2  # partitions that a worker has in memory when it stands still in the next one


def rows(part: int) -> Any:
    """A partition: a key and a value, larger in later partitions, so that a mean of means is wrong."""
    import numpy as np
    import pandas as pd

    draw = np.random.default_rng(part)
    keys, values = draw.integers(KEYS, size=SIZES[part]), draw.integers(100, size=SIZES[part]) + 10 * part
    return pd.DataFrame({"key": keys, "value": values})


def note(folder: str, name: str, text: object) -> None:
    """A line in a file of the lab's folder, from any process."""
    with open(os.path.join(folder, name), "a") as file:
        file.write(f"{text}\n")


def make(part: int, folder: str, run: str) -> Any:
    """A partition, on a worker. In the run "killed" the first worker that begins its third one stands still in it."""
    from distributed import get_worker

    begun = get_worker().__dict__.setdefault("begun", Counter())  # of this process alone
    begun[run] += 1
    note(folder, f"made in {run}", part)
    if run == "killed" and begun[run] == FINISHED + 1:
        try:
            gate = os.open(os.path.join(folder, "gate"), os.O_CREAT | os.O_EXCL | os.O_WRONLY)
        except FileExistsError:
            return rows(part)  # the other worker was first
        os.write(gate, f"{os.getpid()}\n".encode())
        time.sleep(PATIENCE)
        raise TimeoutError("nobody has killed this worker")
    return rows(part)


def cluster(servers: Servers, count: int) -> tuple[str, dict[int, Server]]:
    """The scheduler's address, and the workers by their process."""
    address = f"tcp://127.0.0.1:{free_ports(1)[0]}"
    at = ["--host", "127.0.0.1", "--port", address.rpartition(":")[2]]
    here = [sys.executable, "-m"]
    servers.start("scheduler", [*here, "distributed.cli.dask_scheduler", *at, "--no-dashboard", "--no-show"])
    options = ["--no-nanny", "--no-dashboard", "--nthreads", "1", "--memory-limit", "0", "--host", "127.0.0.1"]
    worker = [*here, "distributed.cli.dask_worker", address, *options, "--local-directory", str(servers.folder)]
    started = [servers.start(f"worker-{number}", worker) for number in range(count)]
    return address, {each.process.pid: each for each in started}


def means(folder: str) -> tuple[Any, Any]:
    """The mean as Dask has it done, from (count, sum) of each partition; and the mean of the partitions' means."""
    import dask.dataframe as dd

    def halves(groups: Any) -> tuple[Any, Any]:
        count, total = groups.count(), groups.sum()
        note(folder, "handed on", f"{int(count.sum())} {len(count)}")
        return count, total

    right = dd.Aggregation(
        "mean", halves, lambda counts, sums: (counts.sum(), sums.sum()), lambda count, total: total / count
    )
    wrong = dd.Aggregation("mean_of_means", lambda groups: groups.mean(), lambda each: each.mean())
    return right, wrong


def lab(servers: Servers, seen: Seen) -> None:
    """Raises MissingError."""
    if importlib.util.find_spec("distributed") is None:
        raise MissingError(MISSING)
    import dask
    import dask.dataframe as dd
    import pandas as pd
    from distributed import Client

    logging.getLogger("distributed").setLevel(logging.CRITICAL)  # it tells of the worker that is killed here
    seen.versions.update(dask=dask.__version__, pandas=pd.__version__)
    folder = str(servers.folder)
    alone = pd.concat([rows(part) for part in range(len(SIZES))]).groupby("key")["value"]
    address, workers = cluster(servers, 2)
    with Client(address, timeout=PATIENCE) as client:
        client.wait_for_workers(2, timeout=PATIENCE)

        def table(run: str) -> Any:
            frame = dd.from_map(make, range(len(SIZES)), folder=folder, run=run, meta=rows(0).head(0))
            return frame.groupby("key")["value"]

        def made(run: str) -> list[str]:
            return (servers.folder / f"made in {run}").read_text().split()

        seen.row(f"sum by key, {sum(SIZES):,} rows in {len(SIZES)} partitions", "one line: groupby('key').sum()")
        sums = table("whole").sum(split_every=len(SIZES)).compute()
        seen.row("  the same as pandas in one process", yes(sums.sort_index().equals(alone.sum())))

        answer = client.compute(table("killed").sum(split_every=len(SIZES)))
        gate = Path(folder, "gate")
        until("a worker stands in its third partition", PATIENCE, lambda: gate.exists() and bool(gate.read_text()))
        workers[int(gate.read_text())].end()
        seen.row(f"a worker killed in its third partition, {FINISHED} finished", "their results were in its memory")
        again = answer.result(timeout=PATIENCE)
        remade = len(made("killed")) - len(SIZES)
        seen.row("  partitions made: first, once more", f"{len(SIZES)}, {remade}")
        same = bool(again.sort_index().equals(alone.sum()))
        seen.row("  workers left; the same sums", f"{len(client.scheduler_info()['workers'])}; {yes(same)}")

        right, wrong = (
            table("means").agg(each, split_every=len(SIZES)).compute().sort_index() for each in means(folder)
        )
        lines = [line.split() for line in (servers.folder / "handed on").read_text().splitlines()]
        handed = [int(pairs) for size, pairs in lines if int(size) in SIZES]  # Dask tries it on two rows first
        off = [float((mean - alone.mean()).abs().max()) for mean in (right, wrong)]
        seen.row("mean by key: (count, sum) of each partition", f"{sum(handed)} pairs handed on, {off[0]:.2g} off")
        seen.row("  the mean of the partitions' means", f"up to {off[1]:.1f} off")
    seen.figures.update(
        rows=sum(SIZES), groups=len(sums), total=int(sums.sum()), same=yes(sums.sort_index().equals(alone.sum())),
        remade=remade, same_after=yes(same), handed=sum(handed), off=off[0], off_wrong=off[1],
    )  # fmt: skip


def yes(so: bool) -> str:
    return "yes" if so else "no"


if __name__ == "__main__":
    sys.exit(main(lab, sys.argv[1:]))
