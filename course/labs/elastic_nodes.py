"""An elastic job of one or two nodes under torchrun: a node is lost for good, and later another one joins.

    python elastic_nodes.py

Each node is a torchrun of its own (`--nnodes 1:2`) with one worker, which runs this file. The rendezvous store lives
here, so that it outlasts every node. Node 0 and node 1 begin; node 1 is killed, agent and worker, when it has logged
step 23; node 2 is started when node 0 has logged step 39 alone. The workers train a linear model with a fixed batch of
9 rows and save every tenth step. Then the same steps are made by one process that nothing happens to. Each line printed
is one event, as JSON.
"""

import contextlib
import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist

ROWS, BATCH, STEPS, EVERY = 64, 9, 60, 10
LOST_AFTER, JOINED_AFTER = 23, 39  # steps
STEP_SECONDS = 0.15  # what a step of a larger model takes
PATIENCE = 180.0  # seconds for what has to happen next


def train(folder: Path, elastic: bool) -> list[float]:
    """What each worker does from its start to its end, and the weights then. Not `elastic`: it is alone, without
    torchrun."""
    begun = time.time()
    torch.set_num_threads(1)
    if elastic:
        dist.init_process_group("gloo")
    else:
        dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
    rank, world = dist.get_rank(), dist.get_world_size()
    generator = torch.Generator().manual_seed(1)
    x = torch.randn(ROWS, 4, generator=generator)
    y = x.sum(1, keepdim=True) + 0.3 * torch.randn(ROWS, 1, generator=generator)
    weight = torch.zeros(4, 1, requires_grad=True)
    optimizer = torch.optim.SGD([weight], lr=0.02, momentum=0.9)
    first = 0
    if (folder / "checkpoint.pt").exists():  # written by whatever world was there before
        state = torch.load(folder / "checkpoint.pt")
        weight.data.copy_(state["weight"])
        optimizer.load_state_dict(state["optimizer"])
        first = state["done"]
    log = (folder / f"steps-{os.environ.get('NODE', 'alone')}.jsonl").open("a", buffering=1)
    for step in range(first, STEPS):
        while elastic and world == 1 and step > JOINED_AFTER:
            time.sleep(0.05)  # so that the new node comes in time on every machine; its arrival ends this worker
        order = torch.randperm(ROWS, generator=torch.Generator().manual_seed(step * BATCH // ROWS))
        rows = [int(order[place % ROWS]) for place in range(step * BATCH, (step + 1) * BATCH)]
        mine = rows[rank::world]
        optimizer.zero_grad()
        ((x[mine] @ weight - y[mine]).pow(2).sum() / BATCH).backward()
        assert weight.grad is not None
        dist.all_reduce(weight.grad)
        optimizer.step()
        time.sleep(STEP_SECONDS if elastic else 0.0)
        line = {"step": step, "rows": len(mine), "rank": rank, "world": world, "pid": os.getpid(), "begun": begun}
        log.write(json.dumps({**line, "at": time.time()}) + "\n")
        dist.barrier()
        if (step + 1) % EVERY == 0 and rank == 0:
            save(folder, {"weight": weight.data, "optimizer": optimizer.state_dict(), "done": step + 1})
        dist.barrier()
    weights: list[float] = weight.flatten().tolist()
    if rank == 0:
        (folder / "weights.json").write_text(json.dumps(weights))
    dist.barrier()
    dist.destroy_process_group()
    return weights


def save(folder: Path, state: dict[str, Any]) -> None:
    with (folder / "checkpoint.partial").open("wb") as file:
        torch.save(state, file)
        file.flush()
        os.fsync(file.fileno())
    os.replace(folder / "checkpoint.partial", folder / "checkpoint.pt")


class Job:
    """The nodes of a job, from here: each a torchrun and its worker."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.nodes: dict[int, subprocess.Popen[bytes]] = {}
        self.store = dist.TCPStore("127.0.0.1", 0, is_master=True, wait_for_workers=False)

    def start(self, node: int) -> None:
        timeouts = "is_host=0,keep_alive_interval=1,keep_alive_max_attempt=3,last_call_timeout=3"
        command = [
            sys.executable, "-m", "torch.distributed.run", "--nnodes", "1:2", "--nproc-per-node", "1",
            "--max-restarts", "3", "--monitor-interval", "0.1", "--rdzv-backend", "c10d", "--rdzv-id", "job",
            "--rdzv-endpoint", f"127.0.0.1:{self.store.port}", "--rdzv-conf", timeouts, "--local-addr", "127.0.0.1",
            __file__, str(self.folder),
        ]  # fmt: skip
        settings = {"TORCH_DISABLE_SHARE_RDZV_TCP_STORE": "1", "OMP_NUM_THREADS": "1", "NODE": str(node)}
        output = (self.folder / f"output-{node}").open("wb")
        self.nodes[node] = subprocess.Popen(
            command, env={**os.environ, **settings}, stdout=output, stderr=subprocess.STDOUT, start_new_session=True
        )
        told(what="start", node=node)

    def lose(self, node: int) -> None:
        """Agent and worker, at once and for good."""
        for pid in (self.nodes[node].pid, *(line["pid"] for line in self.log(node)[-1:])):
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        self.nodes[node].wait()
        told(what="lost", node=node)

    def wait_for(self, node: int, step: int, world: int) -> None:
        """Until a node has logged a step in a world of this size."""
        end = time.monotonic() + PATIENCE
        while not any(line["step"] >= step and line["world"] == world for line in self.log(node)):
            if self.nodes[node].poll() is not None or time.monotonic() > end:
                raise RuntimeError(f"node {node} logged no step {step}: {self.output(node)}")
            time.sleep(0.02)

    def log(self, node: int) -> list[dict[str, Any]]:
        path = self.folder / f"steps-{node}.jsonl"
        lines = path.read_text().split("\n")[:-1] if path.exists() else []
        return [json.loads(line) for line in lines]

    def output(self, node: int) -> str:
        return (self.folder / f"output-{node}").read_text(errors="replace")[-2000:]

    def end(self) -> None:
        for node, process in self.nodes.items():
            if process.poll() is None:
                process.terminate()  # the agent ends its worker
                try:
                    process.wait(10)
                except subprocess.TimeoutExpired:
                    self.lose(node)


def told(**event: Any) -> None:
    print(json.dumps({**event, "at": time.time()}), flush=True)


def drive(folder: Path) -> None:
    """The elastic job: who started and was lost when, each step that was done, and the weights at its end."""
    job = Job(folder)
    try:
        job.start(0)
        job.start(1)
        job.wait_for(1, LOST_AFTER, world=2)
        job.lose(1)
        job.wait_for(0, JOINED_AFTER, world=1)
        job.start(2)
        for node, process in job.nodes.items():
            if node != 1 and process.wait(PATIENCE):
                raise RuntimeError(f"node {node} failed: {job.output(node)}")
        for node in job.nodes:
            for line in job.log(node):
                print(json.dumps({"what": "step", "node": node, **line}))
        told(what="end", weights=json.loads((folder / "weights.json").read_text()))
    finally:
        job.end()


def main() -> int:
    if "TORCHELASTIC_RUN_ID" in os.environ:
        train(Path(sys.argv[1]), elastic=True)
        return 0
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
    with tempfile.TemporaryDirectory() as folder:
        drive(Path(folder))
    with tempfile.TemporaryDirectory() as folder:
        told(what="alone", weights=train(Path(folder), elastic=False))
    return 0


if __name__ == "__main__":
    sys.exit(main())
