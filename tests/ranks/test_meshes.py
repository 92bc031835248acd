"""DeviceMesh, DTensor, fully_shard with tensor parallelism, and distributed checkpoints, as torch has them: the same
numbers and the same files on simulated and on real ranks."""

from __future__ import annotations

import pytest
from often import often
from test_training import HEAD, same_on_both

from grader.ranks.engines import Engines

MESHES = """
import os, tempfile
import torch.distributed.checkpoint as dcp
from torch.distributed.checkpoint.state_dict import get_state_dict, set_state_dict
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard
from torch.distributed.tensor import DTensor, Partial, Replicate, Shard, distribute_tensor
from torch.distributed.tensor.parallel import *

def mesh(shape=(2, 2), names=("dp", "tp")):
    return init_device_mesh("cpu", shape, mesh_dim_names=names)

def block(seed=0):
    torch.manual_seed(seed)
    return nn.Sequential(nn.LayerNorm(6), nn.Linear(6, 8), nn.ReLU(), nn.Linear(8, 6))

def composed(m, on, plan=None):
    if "tp" in on.mesh_dim_names:
        parallelize_module(m, on["tp"], plan or {"1": ColwiseParallel(), "3": RowwiseParallel()})
    names = [name for name in on.mesh_dim_names if name != "tp"]
    return fully_shard(m, mesh=on[tuple(names)]) if names else m

def steps(m, optimizer, on, first=0, count=2):
    out = []
    for step in range(first, first + count):
        torch.manual_seed(10 * step + sum(on.get_local_rank(name) for name in on.mesh_dim_names if name != "tp"))
        x = torch.randn(4, 6)
        optimizer.zero_grad()
        loss = (m(x) - 1).square().mean()
        loss.backward()
        optimizer.step()
        out.append(loss.item())
    return out

def whole(m):
    return [p.full_tensor().detach() if isinstance(p, DTensor) else p.detach().clone() for p in m.parameters()]

def shared(place):
    # real ranks see each other's files no more than simulated ones share a folder here: so they tell what they wrote
    found = [None] * dist.get_world_size()
    mine = {name: open(os.path.join(place, name), "rb").read() for name in os.listdir(place)}
    dist.all_gather_object(found, mine)
    for name, text in {name: text for each in found for name, text in each.items()}.items():
        if name not in mine:
            open(os.path.join(place, name), "wb").write(text)
    return sorted(os.listdir(place))

def kept(save):
    # what is in a checkpoint that was saved on one mesh and loaded on another, and how training goes on
    one, other = mesh((4,), ("dp",)), mesh()
    m = composed(block(), one)
    optimizer = torch.optim.AdamW(m.parameters(), 0.1, foreach=False)
    losses, place = steps(m, optimizer, one), tempfile.mkdtemp()
    model, optim = get_state_dict(m, optimizer)
    save({"model": model, "optimizer": optim}, place)
    files = shared(place)
    later = steps(m, optimizer, one, 2)
    n = composed(block(5), other)
    optimizer = torch.optim.AdamW(n.parameters(), 0.1, foreach=False)
    model, optim = get_state_dict(n, optimizer)
    dcp.load({"model": model, "optimizer": optim}, checkpoint_id=place)
    set_state_dict(n, optimizer, model_state_dict=model, optim_state_dict=optim)
    return losses, later, whole(n), steps(n, optimizer, other, 2), files
"""
PROGRAMS = {
    "slices": '''
        on = mesh((2, 1, 2), ("pp", "dp", "tp"))
        both = on["dp", "tp"]; flat = on["pp", "tp"]._flatten("all")
        out = [on.get_coordinate(), both.shape, flat.size(), flat.get_local_rank()]
        for part in (on["pp"], both["tp"], flat):
            t = torch.ones(2) * (dist.get_rank() + 1); dist.all_reduce(t, group=part.get_group())
            out += [t, dist.get_process_group_ranks(part.get_group())]
        return out
    ''',
    "redistribute": '''
        on, out = mesh((4,), ("x",)), []
        torch.manual_seed(0)
        for shape in ((8, 4), (7, 5), (2, 3)):
            full = torch.randn(shape)
            for before in (Shard(0), Shard(1), Replicate(), Partial()):
                t = distribute_tensor(full, on, [before]) if before != Partial() else DTensor.from_local(
                    full * dist.get_rank(), on, [before])
                out += [t.redistribute(on, [after]).to_local() for after in (Shard(0), Shard(1), Replicate())]
        return out
    ''',
    "redistribute_2d": '''
        on, out = mesh(), []
        torch.manual_seed(0); full = torch.randn(6, 5)
        for before in ((Shard(0), Shard(1)), (Shard(0), Shard(0)), (Replicate(), Shard(1))):
            t = distribute_tensor(full, on, before)
            for after in ((Shard(1), Shard(0)), (Shard(1), Replicate()), (Replicate(), Replicate())):
                out.append(t.redistribute(on, after).to_local())
            out.append(t.sum(0).full_tensor())
        return out
    ''',
    "gradients": '''
        on = mesh((4,), ("x",))
        torch.manual_seed(0)
        table, x = torch.randn(12, 8), torch.randint(0, 12, (4, 6))
        w = distribute_tensor(table, on, [Shard(0)]).requires_grad_()
        h = distribute_tensor(torch.randn(8, 12), on, [Shard(1)]).requires_grad_()
        e = F.embedding(distribute_tensor(x, on, [Replicate()]), w).redistribute(on, [Replicate()])
        y = F.layer_norm(e, (8,)) @ h
        with loss_parallel():
            loss = F.cross_entropy(y.flatten(0, 1), distribute_tensor(x.flatten(), on, [Replicate()]))
            loss.backward()
        return loss.full_tensor().detach(), w.grad.full_tensor(), h.grad.full_tensor()
    ''',
    "sequence_parallel": '''
        on = mesh()
        m = composed(block(), on, {
            "0": SequenceParallel(), "1": ColwiseParallel(input_layouts=Shard(1)),
            "3": RowwiseParallel(output_layouts=Shard(1), use_local_output=False)})
        out = []
        for step in range(2):
            torch.manual_seed(step + on.get_local_rank("dp")); x = torch.randn(2, 4, 6)
            m(x[:, on.get_local_rank("tp")::2].contiguous()).full_tensor().square().mean().backward()
            out += [p.grad.full_tensor() for p in m.parameters()]
        return out
    ''',
    "hsdp": '''
        on = mesh((2, 2), ("replicate", "shard"))
        m = composed(block(), on); optimizer = torch.optim.Adam(m.parameters(), 0.1)
        return steps(m, optimizer, on), whole(m)
    ''',
    "fsdp_tp": '''
        on = mesh()
        m = composed(block(), on); optimizer = torch.optim.AdamW(m.parameters(), 0.1, foreach=False)
        return steps(m, optimizer, on), whole(m), [p.to_local().shape for p in m.parameters()]
    ''',
    "tp": '''
        on = mesh((4,), ("tp",))
        m = composed(block(), on); optimizer = torch.optim.SGD(m.parameters(), 0.1, foreach=False)
        return steps(m, optimizer, on), whole(m)
    ''',
    "checkpoint": '''
        return kept(lambda state, place: dcp.save(state, checkpoint_id=place))
    ''',
    "async_checkpoint": '''
        return kept(lambda state, place: dcp.async_save(state, checkpoint_id=place).result())
    ''',
    "async_checkpoint_later": '''
        # training goes on while it is saved: the checkpoint has what was before
        place, t = tempfile.mkdtemp(), torch.ones(3) * dist.get_rank()
        state = {"mine": {str(dist.get_rank()): t}}
        saved = dcp.async_save(state, checkpoint_id=place)
        t += 100; done = saved.result() is not None; shared(place)
        dcp.load(state, checkpoint_id=place)
        return done, t
    ''',
}  # fmt: skip


@pytest.mark.parametrize("name", often(list(PROGRAMS)))
def test_meshes_are_the_same_on_both(engines: Engines, name: str) -> None:
    same_on_both(engines, HEAD + MESHES, PROGRAMS, name)
