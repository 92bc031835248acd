"""No torch module, hooks on the graph's accumulators, and futures that say when a bucket is there."""

import torch
import torch.distributed as dist


class _Hold:
    def __init__(self, owner):
        self.owner = owner

    def __enter__(self):
        self.owner.held += 1

    def __exit__(self, *_):
        self.owner.held -= 1


class DistributedModel:
    def __init__(self, module, bucket_bytes=25 * 2**20):
        self.module, self.held, self.n = module, 0, dist.get_world_size()
        requests = [
            dist.broadcast(tensor.detach(), src=0, async_op=True)
            for tensor in list(module.parameters()) + list(module.buffers())
        ]
        for request in requests:
            request.wait()
        self.trained = [p for p in module.parameters() if p.requires_grad]
        total = sum(p.nbytes for p in self.trained)
        count = max(1, min(len(self.trained), -(-total // bucket_bytes)))
        self.bucket = {}
        done = 0
        for p in reversed(self.trained):  # `count` buckets of about one size
            self.bucket[p] = min(done * count // total, count - 1)
            done += p.nbytes
        self.members = [[p for p in self.trained if self.bucket[p] == b] for b in range(count)]
        self.members = [members for members in self.members if members]
        self.accumulators = []
        for p in self.trained:
            node = p.view_as(p).grad_fn.next_functions[0][0]
            node.register_hook(lambda *_, p=p: self._got(p))
            self.accumulators.append(node)  # the graph holds them weakly
        self._reset()

    def _reset(self):
        self.got, self.next, self.flats, self.futures = set(), 0, [], []

    def __call__(self, *args, **kwargs):
        return self.forward(*args, **kwargs)

    def forward(self, *args, **kwargs):
        return self.module(*args, **kwargs)

    def _got(self, p):
        if self.held:
            return
        self.got.add(id(p))
        while self.next < len(self.members) and all(id(q) in self.got for q in self.members[self.next]):
            self._start()

    def _start(self):
        parts = []
        for p in self.members[self.next]:
            parts.append(torch.zeros(p.numel(), dtype=p.dtype) if p.grad is None else p.grad.reshape(-1))
        flat = torch.cat(parts)
        self.flats.append(flat)
        self.futures.append(dist.all_reduce(flat, async_op=True).get_future())
        self.next += 1

    def finish_gradient_sync(self):
        used = torch.tensor([p.grad is not None for p in self.trained], dtype=torch.int32)
        while self.next < len(self.members):
            self._start()
        flags = dist.all_reduce(used, async_op=True)
        for future in self.futures:
            future.wait()
        flags.wait()
        users = {id(p): k for p, k in zip(self.trained, used.tolist())}
        for members, flat in zip(self.members, self.flats):
            at = 0
            for p in members:
                mean = flat[at : at + p.numel()].view(p.shape) / self.n
                at += p.numel()
                if users[id(p)]:
                    p.grad = mean
        self._reset()

    def no_sync(self):
        return _Hold(self)
