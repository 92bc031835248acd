"""Ray Data feeds Ray Train on two nodes, one worker on each; then one of the nodes is killed in the middle of an epoch.

    python ray_two_nodes.py [--json]

needs Ray and PyTorch (`pip install 'rankup[jobs]'`), and no network. Both nodes are on this machine: each has a raylet,
an object store and workers of its own, and both belong to one head service (GCS). Ray chooses all ports. Two workers
train by DDP over gloo on what `ray.train.get_dataset_shard` gives them. The first job forgets `datasets=`. The second
job has it; its second node is killed in epoch 2 of 4, and another node takes its place. By default Ray Train asks its
workers every 2 s how they are; here it asks five times a second. About a minute, on a busy machine five. Ray manual:
Data Loading and Preprocessing; Handling Failures and Node Preemption.
"""

from __future__ import annotations

import contextlib
import importlib.util
import json
import os
import sys
import tempfile
import threading
from collections import Counter
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ray_tour import imported
from servers import MissingError, Seen, Servers, main, signals_wait, until

ROWS, BLOCKS, BATCH, EPOCHS, KILLED_IN = 1_000, 8, 100, 4, 2
NODE = {"num_cpus": 2, "object_store_memory": 150 * 2**20}  # one CPU for Ray Train, one for Ray Data
PATIENCE = 250  # seconds, on a machine that is busy with other things


class Nodes:
    """A head node, which this process is connected to, and a second one."""

    def __init__(self, ray: Any, folder: Path) -> None:
        from ray.cluster_utils import Cluster

        self.settings = NODE | {"temp_dir": str(folder), "dashboard_agent_listen_port": None}  # not 52365 for each
        self.number = 1
        self.cluster = Cluster()
        try:
            self._add(include_dashboard=False)
            self.another()
            with signals_wait():
                ray.init(address=self.cluster.address, logging_level="ERROR", log_to_driver=False)
        except BaseException:
            self.end()
            raise

    def kill(self) -> None:
        """SIGKILL to the second node's raylet; Ray's workers end when the raylet of their node is gone."""
        self.cluster.remove_node(self.second, allow_graceful=False)

    def another(self) -> None:
        self.second = self._add()

    def _add(self, **more: Any) -> Any:
        self.number += 1
        # Ray takes 127.0.0.1 for the address of the network card; Linux has the rest of 127.0.0.0/8, too.
        own = {"node_ip_address": f"127.0.0.{self.number}"} if sys.platform == "linux" else {}
        with signals_wait():  # where Ray starts something it sets a handler of its own for SIGTERM: not the lab's
            return self.cluster.add_node(**self.settings, **own, **more)

    def end(self) -> None:
        for node in reversed(self.cluster.list_all_nodes()):
            node.kill_all_processes(check_alive=False, allow_graceful=False, wait=True)


@contextlib.contextmanager
def started(ray: Any, folder: Path) -> Iterator[Nodes]:
    """Two nodes. Raises MissingError."""
    try:
        nodes = Nodes(ray, folder)
    except Exception as error:  # Ray waits 30 s for its own processes, and raises Exception
        raise MissingError(f"Ray did not start, maybe because this machine is busy: try again. ({error})") from error
    try:
        yield nodes
    finally:
        ray.shutdown()
        nodes.end()


def loop(config: dict[str, Any]) -> None:
    """What each worker runs; it writes down which rows it was given. A checkpoint is reported after each epoch."""
    import ray
    import torch
    from ray import train
    from ray.train.torch import prepare_model

    folder, rank = Path(config["folder"]), train.get_context().get_world_rank()
    model, start, checkpoint = torch.nn.Linear(1, 1), 0, train.get_checkpoint()
    if checkpoint:
        kept = torch.load(Path(checkpoint.path, "state"))
        model.load_state_dict(kept["model"])
        start = kept["epoch"] + 1
    ddp = prepare_model(model)
    optimizer = torch.optim.SGD(ddp.parameters(), lr=0.1)
    log = (folder / f"{os.getpid()}.life").open("a")

    def told(**what: Any) -> None:
        print(json.dumps(what), file=log, flush=True)

    told(rank=rank, node=ray.get_runtime_context().get_node_id(), start=start, weight=model.weight.item())
    shard = train.get_dataset_shard("train")
    for epoch in range(start, EPOCHS):
        for number, batch in enumerate(shard.iter_torch_batches(batch_size=BATCH)):
            told(epoch=epoch, rows=batch["id"].tolist())
            loss = torch.nn.functional.mse_loss(ddp(batch["x"][:, None]), batch["y"][:, None])
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            if rank == 1 and epoch == KILLED_IN and number == 1 and not checkpoint:
                train.get_all_reported_checkpoints()  # waits until the checkpoint of the epoch before is registered
                (folder / "kill").touch()
                threading.Event().wait()  # until this node is killed
        told(ended=epoch, weight=model.weight.item())
        with tempfile.TemporaryDirectory() as place:
            if rank == 0:
                torch.save({"epoch": epoch, "model": model.state_dict()}, Path(place, "state"))
            train.report({"epoch": epoch}, checkpoint=train.Checkpoint.from_directory(place) if rank == 0 else None)


class Job(threading.Thread):
    """One TorchTrainer.fit(). It is not in the main thread, where Ray Train would take Ctrl-C for itself."""

    def __init__(self, folder: Path, datasets: dict[str, Any] | None, workers: int = 2, failures: int = 0) -> None:
        from ray import train
        from ray.train.torch import TorchTrainer

        super().__init__(daemon=True)
        folder.mkdir()
        spread = train.ScalingConfig(num_workers=workers, placement_strategy="STRICT_SPREAD")  # one on each node
        kept = train.RunConfig(
            name="job", storage_path=str(folder / "kept"), failure_config=train.FailureConfig(max_failures=failures)
        )
        self.trainer = TorchTrainer(
            loop, train_loop_config={"folder": str(folder)}, scaling_config=spread, run_config=kept, datasets=datasets
        )
        self.error: Exception | None = None

    def run(self) -> None:
        try:
            self.trainer.fit()
        except Exception as error:  # the caller looks at it
            self.error = error

    def wait(self) -> None:
        until("the job has ended", PATIENCE, lambda: not self.is_alive())


@dataclass(frozen=True)
class Life:
    """What one worker process wrote down."""

    rank: int
    node: str
    start: int  # the first epoch
    weight: float  # of the model that it started with
    rows: dict[int, list[int]]  # of each epoch
    weights: dict[int, float]  # at the end of each epoch


def lives(folder: Path) -> list[Life]:
    """Of all worker processes of a job, those that started from no checkpoint first, then by rank."""
    found = []
    for path in folder.glob("*.life"):
        first, *others = map(json.loads, path.read_text().splitlines())
        rows: dict[int, list[int]] = {}
        for line in others:
            if "rows" in line:
                rows.setdefault(line["epoch"], []).extend(line["rows"])
        weights = {line["ended"]: line["weight"] for line in others if "ended" in line}
        found.append(Life(rows=rows, weights=weights, **first))
    return sorted(found, key=lambda life: (life.start, life.rank))


def forgotten(folder: Path, seen: Seen) -> None:
    """The loop asks for a shard, and the trainer was given no `datasets=`."""
    job = Job(folder / "forgotten", None, workers=1)
    job.start()
    job.wait()
    failures = getattr(job.error, "worker_failures", {})  # of ray.train.WorkerGroupError, by rank
    cause = getattr(failures.get(0), "cause", failures.get(0))  # the worker's own exception, in a RayTaskError
    seen.row("without datasets=, get_dataset_shard raises", f"{type(cause).__name__}: {cause}")
    seen.figures.update(forgotten=type(cause).__name__)


def fed(ray: Any, nodes: Nodes, folder: Path, seen: Seen) -> None:
    """Epochs 0 and 1 on both nodes and a part of epoch 2; then, a node being killed, once more from epoch 2 on."""
    place = folder / "fed"

    def prepared(batch: dict[str, Any]) -> dict[str, Any]:
        with (place / "prepared").open("a") as file:
            file.write("x" * len(batch["id"]))
        x = (batch["id"] / ROWS).astype("float32")
        return batch | {"x": x, "y": 2 * x + 1}

    rows = ray.data.range(ROWS, override_num_blocks=BLOCKS).map_batches(prepared)
    job = Job(place, {"train": rows}, failures=1)
    job.start()
    until(f"epoch {KILLED_IN} has begun", PATIENCE, lambda: (place / "kill").exists() or not job.is_alive())
    nodes.kill()
    nodes.another()
    job.wait()
    if job.error is not None:
        raise job.error
    found = lives(place)
    before, after = [life for life in found if not life.start], [life for life in found if life.start]
    for epoch in range(KILLED_IN):
        given(before, epoch, seen)
    seen.row("the second node is killed: rows of epoch 2 until then", _shares(before, KILLED_IN))
    seen.row("  both workers start again, from epoch", str(after[0].start))
    seen.row("  the weight: in the checkpoint, at the start", f"{before[0].weights[1]:.6f}, {after[0].weight:.6f}")
    seen.row("  nodes that the job ran on", f"{_nodes(found)}, two at a time")
    for epoch in range(KILLED_IN, EPOCHS):
        given(after, epoch, seen)
    again = {row for life in before for row in life.rows[KILLED_IN]}
    ran = (place / "prepared").stat().st_size
    seen.row("  rows of epoch 2 given once more", f"{len(again)}: the checkpoint is that of epoch 1")
    seen.row("rows that map_batches worked through", f"{ran:,}: Ray Data runs it anew in each epoch")
    seen.figures.update(
        start=after[0].start, restored=int(after[0].weight == before[0].weights[1]), again=len(again),
        nodes=_nodes(found), nodes_before=_nodes(before),
        nodes_after=_nodes(after), lives=len(found), prepared=ran,
    )  # fmt: skip


def given(workers: Sequence[Life], epoch: int, seen: Seen) -> None:
    """Which rows the workers were given in a whole epoch."""
    counts = Counter(row for life in workers for row in life.rows[epoch])
    twice = sum(count > 1 for count in counts.values())
    seen.row(
        f"epoch {epoch}: rows given to both workers", f"{_shares(workers, epoch)}: {len(counts):,} rows, {twice} twice"
    )
    seen.figures |= {
        f"distinct_{epoch}": len(counts),
        f"twice_{epoch}": twice,
        f"shares_{epoch}": _shares(workers, epoch),
    }


def uneven(ray: Any, seen: Seen) -> None:
    """How Ray Train splits rows whose number is odd: both workers make equally many steps, otherwise DDP would wait."""

    def count(shard: Any) -> int:
        return sum(len(batch["id"]) for batch in shard.iter_batches())

    shards = ray.data.range(ROWS + 1, override_num_blocks=BLOCKS).streaming_split(2, equal=True)
    with ThreadPoolExecutor(2) as readers:  # each shard waits until the other one is read, too
        counts = list(readers.map(count, shards))
    seen.row(f"{ROWS + 1:,} rows, streaming_split(2, equal=True)", " and ".join(map(str, counts)))
    seen.figures.update(uneven=sum(counts))


def _shares(workers: Sequence[Life], epoch: int) -> str:
    return " and ".join(f"{len(life.rows[epoch])}" for life in workers)


def _nodes(workers: Sequence[Life]) -> int:
    return len({life.node for life in workers})


def lab(servers: Servers, seen: Seen) -> None:
    """Raises MissingError."""
    if importlib.util.find_spec("torch") is None:
        raise MissingError("PyTorch is not installed: pip install 'rankup[jobs]'")
    ray = imported(servers)
    (servers.folder / "ray").mkdir()  # where the nodes' address is written: any other ray.init() must not find it
    os.environ |= {"RAY_TMPDIR": str(servers.folder), "RAY_TRAIN_HEALTH_CHECK_INTERVAL_S": "0.2"}
    with started(ray, servers.folder) as nodes, quiet(servers.folder / "ray.log"):
        ray.data.DataContext.get_current().enable_progress_bars = False
        forgotten(servers.folder, seen)
        fed(ray, nodes, servers.folder, seen)
        uneven(ray, seen)


@contextlib.contextmanager
def quiet(log: Path) -> Iterator[None]:
    """What Ray tells this process of the node that is killed goes to a file."""
    with log.open("w") as file, contextlib.redirect_stdout(file), contextlib.redirect_stderr(file):
        yield


if __name__ == "__main__":
    sys.exit(main(lab, sys.argv[1:]))
