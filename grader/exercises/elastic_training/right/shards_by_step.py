"""A folder of shards for each step, with a commit file, dropout's generators and a learning-rate schedule."""

import argparse
import hashlib
import json
import os
import pathlib

import torch
import torch.distributed as dist


def durable(path: pathlib.Path, payload: bytes):
    temporary = path.with_name(f".{path.name}.{os.getpid()}")
    with temporary.open("wb") as f:
        f.write(payload)
        f.flush()
        os.fsync(f.fileno())
    temporary.rename(path)


class Job:
    def __init__(self, data, work, epochs, batch_size):
        self.work = pathlib.Path(work)
        self.rank, self.n = dist.get_rank(), dist.get_world_size()
        both = torch.load(data, weights_only=True)
        self.x, self.y = both["x"], both["y"]
        self.epochs, self.batch = epochs, batch_size
        torch.manual_seed(11)
        self.net = torch.nn.Sequential(
            torch.nn.Linear(self.x.shape[1], 6), torch.nn.Dropout(0.2), torch.nn.Tanh(), torch.nn.Linear(6, 1)
        )
        torch.manual_seed(100 + self.rank)
        self.optimizer = torch.optim.Adam(self.net.parameters(), lr=0.01)
        self.schedule = torch.optim.lr_scheduler.ExponentialLR(self.optimizer, 0.97)
        self.done = 0
        self.per_epoch = -(-len(self.x) // self.n // self.batch)

    def shard(self, done):
        return self.work / f"at-{done}" / f"{self.rank}.pt"

    def store(self):
        path = self.shard(self.done)
        path.parent.mkdir(exist_ok=True)
        import io

        buffer = io.BytesIO()
        torch.save(
            (self.net.state_dict(), self.optimizer.state_dict(), self.schedule.state_dict(), torch.get_rng_state()), buffer
        )
        durable(path, hashlib.sha256(buffer.getvalue()).digest() + buffer.getvalue())
        dist.barrier()
        if self.rank == 0:
            durable(self.work / "committed.json", json.dumps(self.done).encode())
        dist.barrier()

    def restore(self):
        marker = self.work / "committed.json"
        box = [json.loads(marker.read_text()) if self.rank == 0 and marker.exists() else 0]
        dist.broadcast_object_list(box)
        self.done = box[0]
        if self.done:
            import io

            raw = self.shard(self.done).read_bytes()
            assert hashlib.sha256(raw[32:]).digest() == raw[:32]
            net, optimizer, schedule, rng = torch.load(io.BytesIO(raw[32:]), weights_only=False)
            self.net.load_state_dict(net)
            self.optimizer.load_state_dict(optimizer)
            self.schedule.load_state_dict(schedule)
            torch.set_rng_state(rng)

    def rows(self, step):
        epoch, at = divmod(step, self.per_epoch)
        order = torch.randperm(len(self.x), generator=torch.Generator().manual_seed(1000 + epoch))
        mine = order.chunk(self.n)[self.rank]
        return mine[at * self.batch : (at + 1) * self.batch]

    def step(self):
        rows = self.rows(self.done)
        self.optimizer.zero_grad()
        (self.net(self.x[rows]) - self.y[rows]).pow(2).mean().backward()
        for p in self.net.parameters():
            dist.all_reduce(p.grad)
            p.grad /= self.n
        self.optimizer.step()
        self.schedule.step()
        line = json.dumps({"step": self.done, "rows": rows.tolist()}) + "\n"
        fd = os.open(self.work / f"steps-{self.rank}.jsonl", os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
        os.write(fd, line.encode())
        os.close(fd)
        self.done += 1
        self.store()

    def run(self):
        self.restore()
        while self.done < self.epochs * self.per_epoch:
            self.step()
        if self.rank == 0:
            torch.save(self.net.state_dict(), self.work / "final.tmp")
            os.replace(self.work / "final.tmp", self.work / "final.pt")
        dist.barrier()


def train(data, work, epochs, batch_size):
    dist.init_process_group(backend="gloo")
    try:
        Job(data, work, epochs, batch_size).run()
    finally:
        dist.destroy_process_group()


if __name__ == "__main__":
    cli = argparse.ArgumentParser()
    cli.add_argument("--data", required=True)
    cli.add_argument("--work", required=True)
    cli.add_argument("--epochs", type=int, required=True)
    cli.add_argument("--batch-size", type=int, default=4, dest="batch_size")
    a = cli.parse_args()
    train(a.data, a.work, a.epochs, a.batch_size)
