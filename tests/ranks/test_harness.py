"""What an exercise brings into the ranks: its harness calls the learner's functions, and what is banned is refused."""

from __future__ import annotations

import numpy as np
import pytest

from grader.ranks.engines import Engines
from grader.ranks.program import Call, Function, Limits, Program, Strided

BANNED = ("torch.nn.parallel.DistributedDataParallel", "torch.distributed.fsdp.fully_shard")
LIMITS = Limits(cpu_seconds=10)
SOURCE = """\
import torch
from torch.distributed.fsdp import fully_shard
from torch.nn.parallel import DistributedDataParallel

class Model(torch.nn.Module):
    def __init__(self, module):
        super().__init__()
        self.module = module
    def forward(self, x):
        return self.module(x)

def all_done(module):
    return DistributedDataParallel(module)

def sharded(module):
    try:
        return fully_shard(module)
    except Exception:
        return module
"""
HARNESS = """\
import torch, torch.distributed as dist

def train(make, x):
    model = make(torch.nn.Linear(3, 1))
    model(x).sum().backward()
    (weight, _) = model.parameters()
    return {"grad": weight.grad, "ranks": dist.get_world_size(), "module": submission.__name__}

def two_sides(first, x):
    side = first if dist.get_rank() == 0 else submission.receive
    return side(x)
"""
PROGRAM = Program(
    SOURCE, "a.py", (Function("Model"), Function("all_done"), Function("sharded")), harness=HARNESS, banned=BANNED
)
GIVEN = ((Strided.of(np.ones((2, 3), np.float32)),),) * 2


@pytest.mark.parametrize("engine", ["sim", "gloo"])
def test_a_call_goes_through_the_harness(engines: Engines, engine: str) -> None:
    run = engines.run(engine, PROGRAM, 2, [Call(GIVEN, "Model", "train")] * 2, 1, LIMITS)
    assert run.finished, run.diagnoses
    for returned in run.calls[1].returned:
        assert (returned["ranks"], returned["module"]) == (2, "submission")
        assert returned["grad"].view().tolist() == [[2, 2, 2]]


@pytest.mark.parametrize("engine", ["sim", "gloo"])
@pytest.mark.parametrize(
    ("function", "name", "line"),
    [("all_done", "DistributedDataParallel", 13), ("sharded", "fully_shard", 17)],
)
def test_what_does_the_whole_job_is_refused(engines: Engines, engine: str, function: str, name: str, line: int) -> None:
    run = engines.run(engine, PROGRAM, 2, [Call(GIVEN, function, "train")], 1, LIMITS)
    found = run.diagnoses[0]
    assert (found.kind, found.rank, found.line, found.got) == ("forbidden_call", 0, line, name)
    assert "The exercise is to build this yourself" in found.message


def test_a_mistake_of_the_learners_in_the_harness_is_told_at_their_line(engines: Engines) -> None:
    source = SOURCE.replace("return self.module(x)", "return self.modul(x)")
    program = Program(source, "a.py", (Function("Model"),), harness=HARNESS)
    found = engines.run("sim", program, 2, [Call(GIVEN, "Model", "train")], 1, LIMITS).diagnoses[0]
    assert (found.kind, found.line) == ("crash", 10)


@pytest.mark.parametrize("engine", ["sim", "gloo"])
def test_slow_modules_are_there_before_the_program_starts(engines: Engines, engine: str) -> None:
    source = "import sys\n\ndef f():\n    return [name in sys.modules for name in ('tabnanny', 'no_such_module')]\n"
    program = Program(source, "a.py", (Function("f"),), imported=("tabnanny", "no_such_module"))
    for _ in range(2):
        run = engines.run(engine, program, 2, [Call(((), ()))], 1, LIMITS)
        assert run.finished, run.diagnoses
        assert run.calls[0].returned == ([True, False], [True, False])


@pytest.mark.parametrize("engine", ["sim", "gloo"])
def test_a_harness_reaches_every_function_of_the_submission(engines: Engines, engine: str) -> None:
    source = "import torch.distributed as dist\n\ndef give(x):\n    dist.send(2 * x, 1)\n"
    source += "\ndef receive(x):\n    dist.recv(x, 0)\n    return x\n"
    program = Program(source, "a.py", (Function("give"), Function("receive")), harness=HARNESS)
    run = engines.run(engine, program, 2, [Call(GIVEN, "give", "two_sides")], 1, LIMITS)
    assert run.finished, run.diagnoses
    given, received = run.calls[0].returned
    assert given is None
    assert received.view().tolist() == [[2, 2, 2]] * 2


@pytest.mark.parametrize("engine", ["sim", "gloo"])
def test_a_function_that_only_the_harness_calls_may_be_missing_too(engines: Engines, engine: str) -> None:
    source = "def give(x):\n    raise SystemExit('never called')\n"
    program = Program(source, "a.py", (Function("give"), Function("receive", ("x",))), harness=HARNESS)
    run = engines.run(engine, program, 2, [Call(GIVEN, "give", "two_sides")], 1, LIMITS)
    assert run.diagnoses[0].kind == "missing_function"
    assert run.diagnoses[0].message == "a.py does not define receive. Define receive(x)."
