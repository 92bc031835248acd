"""The parts of torch that are private to it and that the simulator and the recorder lean on.

When this fails after torch was upgraded, look here first: what moved is named.
"""

from __future__ import annotations

import subprocess
import sys

import pytest

SEAM = {
    "torch.distributed.distributed_c10d": (
        "_world",
        "_register_process_group",
        "_unregister_process_group",
        "ProcessGroupGloo",
        "_new_process_group_helper",
        "_process_group_name",
        "_get_default_group",
        "init_process_group",
    ),
    "torch._C._distributed_c10d": ("_set_thread_isolation_mode", "Backend", "ProcessGroup", "Work"),
    "torch.autograd": ("set_multithreading_enabled", "Variable"),
    "torch.distributed.algorithms.join": ("Join",),
    "torch.futures": ("Future",),
    "torch._C": ("Future", "_get_dispatch_mode", "_TorchDispatchModeKey"),
    "torch.distributed.tensor._dtensor_spec": ("DTensorSpec", "TensorMeta"),
}


@pytest.fixture(scope="module")
def answers() -> dict[str, str]:
    """What a fresh process with torch says; this one does not import it."""
    program = f"""
import importlib, inspect, torch
from torch.distributed import distributed_c10d as c10d
from torch._C._distributed_c10d import ProcessGroup
from grader.ranks.called import COLLECTIVES
from grader.ranks.sim import world
world.check()
missing = [f"{{m}}.{{n}}" for m, names in {SEAM!r}.items() for n in names
           if not hasattr(importlib.import_module(m), n)]
print("missing=" + ",".join(missing))
print("helper=" + ",".join(list(inspect.signature(c10d._new_process_group_helper).parameters)[:6]))
print("methods=" + ",".join(name for name in COLLECTIVES if not hasattr(ProcessGroup, name)))
print("queue=" + str(hasattr(torch.autograd.Variable._execution_engine, "queue_callback")))
print("source=" + str("ProcessGroupGloo(" in inspect.getsource(c10d._new_process_group_helper)
                      and "_set_sequence_number_for_group()" in inspect.getsource(c10d._new_process_group_helper)))
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return dict(line.split("=", 1) for line in done.stdout.splitlines())


def test_what_we_reach_into_is_there(answers: dict[str, str]) -> None:
    assert answers["missing"] == ""
    assert answers["queue"] == "True"


def test_every_collective_is_a_method_of_a_group(answers: dict[str, str]) -> None:
    assert answers["methods"] == ""


def test_groups_are_made_as_we_expect(answers: dict[str, str]) -> None:
    assert answers["helper"] == "group_size,group_rank,global_ranks_in_group,backend,store,group_name"
    assert answers["source"] == "True"


def test_shapes_of_dtensors_operators_are_worked_out_once_for_all_meshes() -> None:
    program = """
import torch
from torch.distributed.tensor import DTensor, Replicate
from torch.distributed.tensor._dtensor_spec import DTensorSpec, TensorMeta
from torch.distributed.tensor._op_schema import OpSchema
from types import SimpleNamespace
from grader.ranks.sim import shapes

propagator, asked = DTensor._op_dispatcher.sharding_propagator, []
work_out = propagator._propagate_tensor_meta_non_cached
propagator._propagate_tensor_meta_non_cached = lambda schema: asked.append(schema.op) or work_out(schema)
plain = vars(propagator).pop("_propagate_tensor_meta_non_cached")
type(propagator)._propagate_tensor_meta_non_cached = lambda self, schema: plain(schema)
shapes.share(propagator, DTensorSpec)
shapes.share(propagator, DTensorSpec)

def told(op, shape, dtype, *more):
    spec = object.__new__(DTensorSpec)
    vars(spec).update(mesh=SimpleNamespace(device_type="cpu"), placements=(Replicate(),),
                      tensor_meta=TensorMeta(torch.Size(shape), (shape[1], 1), dtype))
    schema = SimpleNamespace(op=op, args_schema=(spec, *more), kwargs_schema={})
    schema.gen_fake_args = lambda: OpSchema.gen_fake_args(schema)
    schema.gen_fake_kwargs = lambda: {}
    found = propagator._propagate_tensor_meta_non_cached(schema)
    return [(tuple(each.shape), each.dtype) for each in (found if isinstance(found, list) else [found])]

add, split = torch.ops.aten.add.Scalar, torch.ops.aten.split.Tensor
assert told(add, (2, 3), torch.int64, 1) == told(add, (2, 3), torch.int64, 1) == [((2, 3), torch.int64)]
assert len(asked) == 1
assert told(add, (2, 3), torch.int64, 1.0) == [((2, 3), torch.float32)]
assert told(add, (3, 3), torch.int64, 1) == [((3, 3), torch.int64)]
assert told(split, (4, 3), torch.float32, 2) == told(split, (4, 3), torch.float32, 2) == 2 * [((2, 3), torch.float32)]
assert len(asked) == 4
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
