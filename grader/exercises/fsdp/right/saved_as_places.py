"""Flat rows; autograd saves only where in its row a weight lies, and reads it from the row gathered again."""

import torch
import torch.distributed as dist


class Row:
    """A unit's parameters, in a row of which each rank keeps a part."""

    def __init__(self, unit):
        self.unit, self.n = unit, dist.get_world_size()
        self.params = list(unit.parameters())
        flat = torch.cat([p.detach().reshape(-1) for p in self.params])
        flat = torch.nn.functional.pad(flat, (0, -len(flat) % self.n))
        self.shard = torch.nn.Parameter(flat.chunk(self.n)[dist.get_rank()].clone())
        self.shapes = [p.shape for p in self.params]
        self.row, self.missing = None, 0
        self.grads = {}
        self.free()
        unit.register_forward_pre_hook(self.before)
        unit.register_forward_hook(self.after)
        for place, p in enumerate(self.params):
            p.register_post_accumulate_grad_hook(lambda p, place=place: self.got(place, p))

    def gather(self):
        if self.row is None:
            self.row = self.shard.new_empty(self.n * len(self.shard), requires_grad=False)
            dist.all_gather_into_tensor(self.row, self.shard.detach())
            parts = self.row[: sum(s.numel() for s in self.shapes)].split([s.numel() for s in self.shapes])
            for p, part, shape in zip(self.params, parts, self.shapes):
                p.data = part.view(shape)

    def free(self):
        self.row = None
        for p, shape in zip(self.params, self.shapes):
            p.data = p.new_zeros(()).expand(shape)  # the shape without the memory

    def before(self, unit, args):
        self.gather()
        self.hooks = torch.autograd.graph.saved_tensors_hooks(self.pack, self.unpack)
        self.hooks.__enter__()

    def after(self, unit, args, out):
        self.hooks.__exit__()
        self.free()

    def pack(self, tensor):
        if self.row is not None and tensor.untyped_storage().data_ptr() == self.row.untyped_storage().data_ptr():
            return tensor.shape, tensor.stride(), tensor.storage_offset()
        return tensor

    def unpack(self, packed):
        if isinstance(packed, torch.Tensor):
            return packed
        self.gather()
        return self.row.as_strided(*packed)

    def got(self, place, p):
        self.grads[place] = p.grad
        p.grad = None
        if len(self.grads) == len(self.params):
            flat = torch.cat([self.grads[k].reshape(-1) for k in range(len(self.params))])
            self.grads = {}
            self.free()
            flat = torch.nn.functional.pad(flat, (0, -len(flat) % self.n))
            mine = torch.empty_like(self.shard.detach())
            dist.reduce_scatter_tensor(mine, flat)
            self.reduced = mine / self.n


class FullyShardedModel:
    def __init__(self, module):
        self.module = module
        self.rows = [Row(child) for child in module.children() if list(child.parameters())]

    def parameters(self):
        return [row.shard for row in self.rows]

    def forward(self, *args):
        return self.module(*args)

    __call__ = forward

    def finish_gradient_sync(self):
        for row in self.rows:
            row.shard.grad = row.reduced

    def full_state_dict(self):
        for row in self.rows:
            row.gather()
        state = {name: value.clone() for name, value in self.module.state_dict().items()}
        for row in self.rows:
            row.free()
        return state
