"""Tensors of ranks elsewhere than in the host's memory, as far as that shows without a GPU.

The device "cpu:0" is one that is not called "cpu": ranks there do all that they do on a GPU, and only its memory is the
host's own.
"""

from __future__ import annotations

import ast
from dataclasses import replace

import numpy as np
import pytest
import torch
from often import by_day
from test_equality import PATIENT

from grader.authoring import verdicts, wrong
from grader.classroom import devices
from grader.exercise import Draw
from grader.ranks import learner
from grader.ranks.engines import Engines
from grader.ranks.program import Program, same_for_all
from grader.ranks.worker import DrawnOnHost
from grader.registry import catalogue, find
from grader.submission import BadRequest
from grader.worlds.ranks import Ranks
from tools import gpu

ELSEWHERE = "cpu:0"
TEXT = """
import torch, torch.distributed as dist
def f(x):
    r, n = dist.get_rank(), dist.get_world_size()
    came, anybody, wide = torch.zeros(3), torch.zeros(3), torch.arange(6.0).view(3, 2)
    ops = [dist.P2POp(dist.isend, x, (r + 1) % n), dist.P2POp(dist.irecv, came, (r - 1) % n)]
    for work in dist.batch_isend_irecv(ops): work.wait()
    sent = dist.isend(came, (r + 1) % n, tag=1)
    source = dist.recv(anybody, tag=1)
    sent.wait()
    total, first = x.clone(), came.clone()
    dist.all_reduce(total)
    try:
        dist.send(wide[:, 0], (r + 1) % n)
    except (RuntimeError, ValueError) as error:
        refused = str(error)
    late = dist.isend(total, (r + 1) % n)
    total += 1
    dist.recv(came, (r - 1) % n)
    late.wait()
    return first, anybody, source, total, refused, x.device.type, torch.get_default_device().type
"""


def test_messages_of_other_memory_arrive_and_misuse_of_it_is_told(engines: Engines) -> None:
    program, x = Program.of(TEXT, "learner.py", "f"), np.ones(3, np.float32)
    runs = [
        engines.run("gloo", each, 3, [same_for_all(3, x)], 1, PATIENT)
        for each in (program, replace(program, device=ELSEWHERE))
    ]
    assert all(run.finished for run in runs), [(run.diagnoses, run.stderr) for run in runs]
    host, elsewhere = ([[str(getattr(v, "view", lambda v=v: v)()) for v in rank] for rank in run.calls[0].returned]
                       for run in runs)  # fmt: skip
    assert elsewhere == host
    assert [[found.kind, found.line] for run in runs for found in run.calls[0].diagnoses] == [["race", 20]] * 6


@pytest.mark.parametrize("name", by_day(each.name for each in catalogue() if isinstance(each.world, Ranks)))
def test_an_exercise_of_ranks_is_judged_alike_wherever_its_tensors_are(engines: Engines, name: str) -> None:
    if not devices.on_devices(find(name)):
        pytest.skip("no tensors of several ranks, as its cases show")
    [row] = gpu.rows(engines, [name], ELSEWHERE)
    assert row.well, row.line()
    world = find(name).world
    assert isinstance(world, Ranks)
    real = any(not case.simulated for case in world.cases(Draw(verdicts.SEED)))
    assert ("gloo" in row.engines) == real, "or no tensor was there"
    assert row.line() in gpu.page("a machine", [row])


def test_what_a_generator_of_the_host_draws_is_in_the_hosts_memory() -> None:
    draw = torch.Generator().manual_seed(3)
    with torch.device("meta"), DrawnOnHost():  # a device on which that generator cannot draw either
        order, elsewhere = torch.randperm(5, generator=draw), torch.zeros(1)
    assert order.tolist() == torch.randperm(5, generator=draw.manual_seed(3)).tolist()
    assert elsewhere.is_meta


def test_a_tensor_keeps_its_gaps_on_another_device() -> None:
    described = {"dtype": "float32", "shape": [2, 2], "stride": [5, 2], "offset": 1}
    there = learner.tensor(described, np.arange(9, dtype=np.float32).tobytes(), "meta")
    assert (there.stride(), there.storage_offset(), there.is_meta) == ((5, 2), 1, True)


# They look at memory, and are only there on simulated ranks (see `simulated` of their cases), which have the host's.
ONLY_SIMULATED = {("fsdp", "_Watch"), ("ring_attention", "_Memory")}


def of_the_host(text: str) -> set[str]:
    """Top-level names in which an exercise's module reads a tensor as memory of the host that it may not be, or names
    the host as a device: .numpy() of what cpu() did not copy, addresses, "cpu"."""
    found = set()
    for part in ast.parse(text).body:
        copied = {each.targets[0].id for each in ast.walk(part) if isinstance(each, ast.Assign)
                  and ".cpu()" in ast.unparse(each.value) and isinstance(each.targets[0], ast.Name)}  # fmt: skip
        for node in ast.walk(part):
            call = ast.unparse(node) if isinstance(node, ast.Call) else ""
            of_host = call.endswith(".cpu().numpy()") or any(f"({name}." in call for name in copied)
            if (call.endswith(".numpy()") or call.startswith("ctypes.string_at(")) and not of_host:
                found.add(getattr(part, "name", ""))
            if isinstance(node, ast.Call) and any(ast.unparse(given) == "'cpu'" for given in node.args):
                found.add(getattr(part, "name", ""))
    return found


@pytest.mark.heavy
def test_exercises_do_not_read_a_devices_memory_as_the_hosts() -> None:
    found = set()
    for name in gpu.names():
        world = find(name).world
        assert isinstance(world, Ranks)
        found |= {(name, part) for part in of_the_host(world.harness)}
    assert found == ONLY_SIMULATED


@pytest.mark.heavy
def test_an_exercise_without_ranks_has_no_tensors_on_a_device() -> None:
    for name in ("quorum_store", "elastic_training", "parallel_plan"):
        with pytest.raises(BadRequest, match=f"--device cuda is for exercises of several ranks, and {name} is none"):
            devices.refuse_world("cuda", find(name))
    assert all(any(each.only for each in wrong.wrongs(name)) for name in gpu.names())


@pytest.mark.parametrize(
    ("device", "engine", "says"),
    [("tpu", "auto", "no device is called 'tpu'; choose from cpu, cuda"), ("cuda", "sim", "leave out --engine sim")],
)
def test_a_device_that_cannot_be_is_one_sentence(device: str, engine: str, says: str) -> None:
    with pytest.raises(BadRequest, match=says):
        devices.refuse(device, engine)
