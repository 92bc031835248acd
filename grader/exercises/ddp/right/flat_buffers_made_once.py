"""Each hook copies its gradient into a flat buffer made once; parameters and buffers are broadcast as one string of bytes."""

import contextlib

import torch
import torch.distributed as dist
from torch import nn


def _broadcast_state(module):
    state = [tensor.detach() for tensor in (*module.parameters(), *module.buffers())]
    if not state:
        return
    pieces = [tensor.reshape(-1).contiguous().view(torch.uint8) for tensor in state]
    message = torch.cat(pieces)
    dist.broadcast(message, 0)
    for tensor, piece in zip(state, message.split([piece.numel() for piece in pieces])):
        tensor.copy_(piece.clone().view(tensor.dtype).view(tensor.shape))


class _Place:
    """Where a parameter's gradient lies: in which bucket, and which part of its flat buffer."""

    def __init__(self, parameter, bucket):
        self.parameter, self.bucket = parameter, bucket
        self.view = None
        self.filled = False

    def fill(self):
        if self.parameter.grad is None:
            self.view.zero_()
        else:
            self.view.copy_(self.parameter.grad)
        self.filled = True


class DistributedModel(nn.Module):
    def __init__(self, module, bucket_bytes=25 * 2**20):
        super().__init__()
        self.module = module
        self._syncing = True
        with torch.no_grad():
            _broadcast_state(module)
        self._places = []
        room, bucket = 0, -1
        for parameter in reversed([p for p in module.parameters() if p.requires_grad]):
            if bucket < 0 or (room <= 0 and parameter.numel()):
                room, bucket = bucket_bytes, bucket + 1
            room -= parameter.numel() * parameter.element_size()
            self._places.append(_Place(parameter, bucket))
        self._buckets = [[place for place in self._places if place.bucket == b] for b in range(bucket + 1)]
        self._flats = []
        for places in self._buckets:
            like = places[0].parameter
            flat = torch.zeros(sum(p.parameter.numel() for p in places), dtype=like.dtype, device=like.device)
            for place, part in zip(places, flat.split([p.parameter.numel() for p in places])):
                place.view = part.view(place.parameter.shape)
            self._flats.append(flat)
        self._requests = []
        for place in self._places:
            place.parameter.register_post_accumulate_grad_hook(self._hook(place))

    def _hook(self, place):
        def gradient_is_there(parameter):
            if not self._syncing:
                return
            with torch.no_grad():
                place.fill()
            while len(self._requests) < len(self._flats):
                if not all(other.filled for other in self._buckets[len(self._requests)]):
                    break
                self._launch()

        return gradient_is_there

    def _launch(self):
        flat = self._flats[len(self._requests)]
        self._requests.append(dist.all_reduce(flat, op=dist.ReduceOp.SUM, async_op=True))

    def forward(self, *args, **kwargs):
        return self.module(*args, **kwargs)

    def finish_gradient_sync(self):
        if not self._syncing or not self._places:
            return
        with torch.no_grad():
            while len(self._requests) < len(self._flats):
                for place in self._buckets[len(self._requests)]:
                    if not place.filled:
                        place.fill()
                self._launch()
            used = torch.zeros(len(self._places), dtype=torch.uint8, device=self._flats[0].device)
            for number, place in enumerate(self._places):
                used[number] = place.parameter.grad is not None
            self._requests.append(dist.all_reduce(used, op=dist.ReduceOp.MAX, async_op=True))
            for request in self._requests:
                request.wait()
            world = dist.get_world_size()
            for place, by_somebody in zip(self._places, used.tolist()):
                if by_somebody:
                    mean = place.view / world
                    if place.parameter.grad is None:
                        place.parameter.grad = mean
                    else:
                        place.parameter.grad.copy_(mean)
                place.filled = False
            self._requests = []

    @contextlib.contextmanager
    def no_sync(self):
        outside = self._syncing
        self._syncing = False
        try:
            yield
        finally:
            self._syncing = outside
