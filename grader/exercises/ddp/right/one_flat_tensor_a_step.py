"""Hooks on autograd's AccumulateGrad nodes; buckets are slices of one flat tensor, which each step makes anew."""

import contextlib
import itertools

import torch
import torch.distributed as dist


class _Round:
    """What is under way in one step: one flat gradient, and the requests for its slices."""

    def __init__(self, parameters, cuts):
        self.parameters = parameters
        self.cuts = cuts  # numbers of parameters at which buckets begin, and the end
        self.offsets = [0, *itertools.accumulate(p.numel() for p in parameters)]
        self.flat = torch.zeros(self.offsets[-1], dtype=parameters[0].dtype, device=parameters[0].device)
        self.missing = [stop - start for start, stop in itertools.pairwise(cuts)]
        self.requests = []

    def part(self, number):
        return self.flat[self.offsets[number] : self.offsets[number + 1]].view(self.parameters[number].shape)

    def complete(self):
        return len(self.requests) == len(self.missing)

    def launch(self):
        """The next bucket, with what gradients there are."""
        start, stop = self.cuts[len(self.requests)], self.cuts[len(self.requests) + 1]
        with torch.no_grad():
            for number in range(start, stop):
                if self.parameters[number].grad is not None:
                    self.part(number).copy_(self.parameters[number].grad)
        bucket = self.flat[self.offsets[start] : self.offsets[stop]]
        self.requests.append(dist.all_reduce(bucket, async_op=True))


class DistributedModel(torch.nn.Module):
    def __init__(self, module, bucket_bytes=25 * 2**20):
        super().__init__()
        self.module = module
        for tensor in itertools.chain(module.parameters(), module.buffers()):
            received = tensor.detach().contiguous().clone()
            dist.broadcast(received, src=0)
            with torch.no_grad():
                tensor.copy_(received)
        self._trained = [p for p in module.parameters() if p.requires_grad]
        self._trained.reverse()
        self._cuts = [0]
        size = 0
        for number, parameter in enumerate(self._trained):
            if number > self._cuts[-1] and size >= bucket_bytes and parameter.numel() > 0:
                self._cuts.append(number)
                size = 0
            size += parameter.numel() * parameter.element_size()
        self._cuts.append(len(self._trained))
        self._round = None
        self._enabled = True
        self._nodes = []
        for number, parameter in enumerate(self._trained):
            bucket = sum(cut <= number for cut in self._cuts) - 1
            with torch.enable_grad():
                node = parameter.view_as(parameter).grad_fn.next_functions[0][0]
            node.register_hook(lambda *_, bucket=bucket: self._accumulated(bucket))
            self._nodes.append(node)  # autograd itself holds it only weakly

    def _begin(self):
        if self._round is None:
            self._round = _Round(self._trained, self._cuts)
        return self._round

    def _accumulated(self, bucket):
        if not self._enabled:
            return
        now = self._begin()
        now.missing[bucket] -= 1
        while not now.complete() and now.missing[len(now.requests)] == 0:
            now.launch()

    def forward(self, *args, **kwargs):
        return self.module(*args, **kwargs)

    def finish_gradient_sync(self):
        if not self._enabled or not self._trained:
            return
        now = self._begin()
        while not now.complete():
            now.launch()
        used = [0 if parameter.grad is None else 1 for parameter in self._trained]
        used = torch.tensor(used, dtype=torch.uint8, device=now.flat.device)
        now.requests.append(dist.all_reduce(used, op=dist.ReduceOp.MAX, async_op=True))
        for request in now.requests:
            request.wait()
        with torch.no_grad():
            now.flat /= dist.get_world_size()
            for number, parameter in enumerate(self._trained):
                if used[number].item() == 0:
                    continue
                if parameter.grad is None:
                    parameter.grad = now.part(number).clone()
                else:
                    parameter.grad.copy_(now.part(number))
        self._round = None

    @contextlib.contextmanager
    def no_sync(self):
        enabled, self._enabled = self._enabled, False
        try:
            yield
        finally:
            self._enabled = enabled
