"""torch's own distributed training, unchanged, on simulated ranks and on real gloo processes: the same numbers."""

from __future__ import annotations

import textwrap

import pytest
from often import often
from test_equality import PATIENT, close

from grader.ranks.engines import Engines
from grader.ranks.program import Call, Program

HEAD = """
import torch, torch.distributed as dist
import torch.nn as nn, torch.nn.functional as F

def model(seed=0):
    torch.manual_seed(seed)
    return nn.Sequential(nn.Linear(6, 8), nn.ReLU(), nn.Linear(8, 8), nn.ReLU(), nn.Linear(8, 2))

def data(steps=3):
    torch.manual_seed(100 + dist.get_rank())
    return [(torch.randn(4, 6), torch.randn(4, 2)) for _ in range(steps)]

def train(m, optimizer, steps=3, forward=None):
    losses = []
    for x, y in data(steps):
        optimizer.zero_grad()
        loss = F.mse_loss((forward or m)(x), y)
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return losses

def state(m):
    return [p.detach().clone() for p in m.parameters()]

def rank():
    return dist.get_rank()

def virtual(kind, numbers, micro_batches):
    # two steps of a pipeline of which each rank has two stages: the losses where the last is, and the gradients
    from torch.distributed.pipelining import PipelineStage
    count, layers = 2 * dist.get_world_size(), []
    for number in numbers:
        torch.manual_seed(number)
        layers.append(nn.Sequential(nn.Linear(6, 6), nn.Tanh(), nn.Linear(6, 6)))
    stages = [PipelineStage(m, n, count, torch.device("cpu")) for m, n in zip(layers, numbers)]
    schedule = kind(stages, n_microbatches=micro_batches, loss_fn=F.mse_loss)
    torch.manual_seed(9); x, y = torch.randn(16, 6), torch.randn(16, 6)
    told = []
    for _ in range(2):
        losses = []
        given = {"target": y, "losses": losses} if count - 1 in numbers else {}
        schedule.step(*([x] if 0 in numbers else []), **given)
        told.append([loss.detach() for loss in losses])
    return told, [p.grad.clone() for m in layers for p in m.parameters()]
"""
PROGRAMS = {
    "ddp": '''
        from torch.nn.parallel import DistributedDataParallel as DDP
        m = DDP(model(dist.get_rank()))
        return train(m, torch.optim.SGD(m.parameters(), 0.1)), state(m)
    ''',
    "ddp_small_buckets": '''
        from torch.nn.parallel import DistributedDataParallel as DDP
        m = DDP(model(), bucket_cap_mb=0.0001)
        return train(m, torch.optim.Adam(m.parameters(), 0.1)), state(m)
    ''',
    "ddp_no_sync": '''
        from torch.nn.parallel import DistributedDataParallel as DDP
        m = DDP(model()); x, y = data()[0]
        with m.no_sync(): F.mse_loss(m(x), y).backward()
        before = [p.grad.clone() for p in m.parameters()]
        F.mse_loss(m(x), y).backward()
        return before, [p.grad.clone() for p in m.parameters()]
    ''',
    "ddp_join": '''
        from torch.nn.parallel import DistributedDataParallel as DDP
        m = DDP(model()); o = torch.optim.SGD(m.parameters(), 0.1)
        with m.join():
            losses = train(m, o, 2 + rank())
        return losses, state(m)
    ''',
    "ddp_join_divided": '''
        from torch.nn.parallel import DistributedDataParallel as DDP
        m = DDP(model()); o = torch.optim.SGD(m.parameters(), 0.1)
        with m.join(divide_by_initial_world_size=False):
            losses = train(m, o, 2 + rank())
        return losses, state(m)
    ''',
    "ddp_static": '''
        from torch.nn.parallel import DistributedDataParallel as DDP
        m = DDP(model(), static_graph=True, bucket_cap_mb=0.0001)
        return train(m, torch.optim.SGD(m.parameters(), 0.1)), state(m)
    ''',
    "ddp_unused": '''
        from torch.nn.parallel import DistributedDataParallel as DDP
        class Net(nn.Module):
            def __init__(self):
                super().__init__(); torch.manual_seed(1)
                self.a, self.b = nn.Linear(6, 2), nn.Linear(6, 2)
            def forward(self, x): return self.a(x) if dist.get_rank() % 2 else self.b(x)
        m = DDP(Net(), find_unused_parameters=True)
        return train(m, torch.optim.SGD(m.parameters(), 0.1)), state(m)
    ''',
    "ddp_hook": '''
        from torch.nn.parallel import DistributedDataParallel as DDP
        def hook(group, bucket):
            work = dist.all_reduce(bucket.buffer().div_(dist.get_world_size()), async_op=True)
            return work.get_future().then(lambda future: future.value()[0])
        m = DDP(model()); m.register_comm_hook(None, hook)
        return train(m, torch.optim.SGD(m.parameters(), 0.1)), state(m)
    ''',
    "ddp_fp16_hook": '''
        from torch.nn.parallel import DistributedDataParallel as DDP
        from torch.distributed.algorithms.ddp_comm_hooks import default_hooks
        m = DDP(model()); m.register_comm_hook(None, default_hooks.fp16_compress_hook)
        return train(m, torch.optim.SGD(m.parameters(), 0.1)), state(m)
    ''',
    "ddp_buffers": '''
        from torch.nn.parallel import DistributedDataParallel as DDP
        torch.manual_seed(3)
        net = nn.Sequential(nn.Linear(6, 4), nn.BatchNorm1d(4), nn.Linear(4, 2))
        m = DDP(net)
        return train(m, torch.optim.SGD(m.parameters(), 0.1)), [b.clone() for b in m.buffers()]
    ''',
    "zero": '''
        from torch.nn.parallel import DistributedDataParallel as DDP
        from torch.distributed.optim import ZeroRedundancyOptimizer
        m = DDP(model())
        return train(m, ZeroRedundancyOptimizer(m.parameters(), torch.optim.Adam, lr=0.1)), state(m)
    ''',
    "fsdp1": '''
        from torch.distributed.fsdp import FullyShardedDataParallel as FSDP
        m = FSDP(model(), device_id=torch.device("cpu")); o = torch.optim.Adam(m.parameters())
        losses, told = train(m, o), FSDP.optim_state_dict(m, o)["state"]
        return losses, sorted(told), [each["exp_avg"] for each in told.values()]
    ''',
    "fsdp2": '''
        from torch.distributed.fsdp import fully_shard
        from torch.distributed.device_mesh import init_device_mesh
        mesh = init_device_mesh("cpu", (dist.get_world_size(),))
        m = model()
        for layer in m:
            if isinstance(layer, nn.Linear): fully_shard(layer, mesh=mesh)
        fully_shard(m, mesh=mesh)
        losses = train(m, torch.optim.Adam(m.parameters(), 0.1))
        return losses, [p.full_tensor().detach() for p in m.parameters()]
    ''',
    "mesh_2d": '''
        from torch.distributed.device_mesh import init_device_mesh
        if dist.get_world_size() != 4: return None
        mesh = init_device_mesh("cpu", (2, 2), mesh_dim_names=("dp", "tp"))
        t = torch.ones(2) * dist.get_rank(); u = t.clone()
        dist.all_reduce(t, group=mesh.get_group("dp")); dist.all_reduce(u, group=mesh["tp"].get_group())
        return t, u, mesh.get_local_rank("dp"), mesh.get_coordinate()
    ''',
    "dtensor": '''
        from torch.distributed.device_mesh import init_device_mesh
        from torch.distributed.tensor import distribute_tensor, Shard, Replicate
        mesh = init_device_mesh("cpu", (dist.get_world_size(),))
        torch.manual_seed(0)
        a, b = torch.randn(8, 4), torch.randn(4, 8)
        da, db = distribute_tensor(a, mesh, [Shard(0)]), distribute_tensor(b, mesh, [Shard(1)])
        c = da @ db.redistribute(mesh, [Replicate()])
        return c.full_tensor(), da.to_local(), (da.sum()).full_tensor()
    ''',
    "tensor_parallel": '''
        from torch.distributed.device_mesh import init_device_mesh
        from torch.distributed.tensor.parallel import parallelize_module, ColwiseParallel, RowwiseParallel
        mesh = init_device_mesh("cpu", (dist.get_world_size(),))
        torch.manual_seed(0)
        m = nn.Sequential(nn.Linear(6, 8), nn.ReLU(), nn.Linear(8, 2))
        m = parallelize_module(m, mesh, {"0": ColwiseParallel(), "2": RowwiseParallel()})
        torch.manual_seed(7); x = torch.randn(5, 6)
        loss = m(x).square().sum(); loss.backward()
        return loss.detach(), [p.grad.full_tensor() for p in m.parameters()]
    ''',
    "pipeline": '''
        from torch.distributed.pipelining import PipelineStage, ScheduleGPipe, Schedule1F1B
        rank, n = dist.get_rank(), dist.get_world_size()
        out = []
        for kind in (ScheduleGPipe, Schedule1F1B):
            torch.manual_seed(rank)
            layer = nn.Linear(6, 6)
            stage = PipelineStage(layer, rank, n, torch.device("cpu"))
            schedule = kind(stage, n_microbatches=4, loss_fn=F.mse_loss)
            torch.manual_seed(9); x, y = torch.randn(8, 6), torch.randn(8, 6)
            losses = []
            if rank == 0: schedule.step(x)
            elif rank == n - 1: schedule.step(target=y, losses=losses)
            else: schedule.step()
            out.append([layer.weight.grad.clone(), [l.detach() for l in losses]])
        return out
    ''',
    "interleaved_zero_bubble": '''
        from torch.distributed.pipelining import ScheduleInterleavedZeroBubble
        return virtual(ScheduleInterleavedZeroBubble, [rank(), rank() + dist.get_world_size()], 8)
    ''',
    "zbv": '''
        from torch.distributed.pipelining import ScheduleZBVZeroBubble
        return virtual(ScheduleZBVZeroBubble, [rank(), 2 * dist.get_world_size() - 1 - rank()], 8)
    ''',
    "dualpipev": '''
        from torch.distributed.pipelining import ScheduleDualPipeV
        return virtual(ScheduleDualPipeV, [rank(), 2 * dist.get_world_size() - 1 - rank()], 8)
    ''',
    # inside the context, scaled_dot_product_attention itself is for GPUs: its ring is called with the kernels for CPUs
    "context_parallel": '''
        from torch.distributed.device_mesh import init_device_mesh
        from torch.distributed.tensor.experimental import context_parallel
        from torch.distributed.tensor.experimental._context_parallel import _attention as cp
        mesh, ops, told = init_device_mesh("cpu", (dist.get_world_size(),)), torch.ops.aten, []
        q, k, v, g = (torch.randn(1, 2, 4 * dist.get_world_size(), 8) for _ in range(4))
        forward = ops._scaled_dot_product_flash_attention_for_cpu
        backward = ops._scaled_dot_product_flash_attention_for_cpu_backward
        with context_parallel(mesh, buffers=[q, k, v, g], buffer_seq_dims=[2] * 4):
            for how in ("allgather", "alltoall"):
                cp.set_rotate_method(how)
                ring = mesh.get_group(), 2
                out, lse, *_ = cp._templated_ring_attention(*ring, forward, q, k, v, is_causal=True)
                grads = cp._templated_ring_attention_backward(
                    *ring, backward, g, "grad_out", q, k, v, out, lse, is_causal=True, dropout_p=0.0)
                told.append(cp.context_parallel_unshard(mesh, [out, *grads[:3]], [2] * 4))
        q, k, v = (each.requires_grad_() for each in (q, k, v))
        whole = ops.scaled_dot_product_attention(q, k, v, is_causal=True)
        whole.backward(g)
        for got in told:
            for mine, wanted in zip(got, (whole, q.grad, k.grad, v.grad)):
                torch.testing.assert_close(mine, wanted.detach())
        return told
    ''',
}  # fmt: skip


def same_on_both(engines: Engines, head: str, programs: dict[str, str], name: str) -> None:
    """What a program returns is the same on four simulated ranks and on four real processes."""
    ranks, body = 4, textwrap.indent(textwrap.dedent(programs[name]), "    ")
    program, calls = Program.of(f"{head}\ndef main():\n{body}\n", "learner.py", "main"), [Call(((),) * ranks)]
    simulated = engines.run("sim", program, ranks, calls, 1, PATIENT, strictly=True)
    assert simulated.finished, (simulated.diagnoses, simulated.stderr[0][-3000:])
    real = engines.run("gloo", program, ranks, calls, 1, PATIENT)
    assert real.finished, (real.diagnoses, real.stderr[0][-3000:])
    for rank in range(ranks):
        a, b = simulated.calls[0].returned[rank], real.calls[0].returned[rank]
        assert close(a, b), f"rank {rank}: {a} != {b}"


@pytest.mark.parametrize("name", often(list(PROGRAMS), "ddp"))
def test_training_is_the_same_on_both(engines: Engines, name: str) -> None:
    same_on_both(engines, HEAD, PROGRAMS, name)
