"""How runs on real processes end, and what is said about it: one small program for each way to go wrong."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import textwrap
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import psutil
import pytest

from grader.ranks.engines import Engines
from grader.ranks.program import Call, Limits, Program, Run, Strided, same_for_all

QUICK = Limits(cpu_seconds=0.4, idle_seconds=0.8)


def run(engines: Engines, body: str, ranks: int = 3, p2p_only: bool = False, limits: Limits = QUICK) -> Run:
    """Run `body` as the function `f()` on `ranks` real processes; its first line is line 4."""
    source = "import os, sys, time\nimport torch, torch.distributed as dist\ndef f():\n"
    source += textwrap.indent(textwrap.dedent(body).strip() + "\n", "    ")
    return engines.run(
        "gloo", Program.of(source, "learner.py", "f", (), p2p_only), ranks, [same_for_all(ranks)], 1, limits
    )


@dataclass(frozen=True)
class Bad:
    """A program, how it must end, the kind and line of its diagnosis, and words the sentence must have."""

    body: str
    ending: str
    kind: str
    line: int | None
    words: tuple[str, ...]
    ranks: int = 3
    p2p_only: bool = False


RANK = "r, n = dist.get_rank(), dist.get_world_size()\nx = torch.zeros(4)\n"
BAD = {
    "all send first": Bad(
        RANK + "dist.send(x, (r + 1) % n)\ndist.recv(x, (r - 1) % n)",
        "deadlocked", "deadlock", 6, ("cycle of 3 ranks", "16 bytes to rank 1", "isend"),
    ),
    "all receive first": Bad(
        RANK + "dist.recv(x, (r - 1) % n)\ndist.send(x, (r + 1) % n)",
        "deadlocked", "deadlock", 6, ("cycle of 3 ranks", "must send first"),
    ),
    "a cycle of two while the third computes": Bad(
        RANK + "if r < 2: dist.recv(x, 1 - r)\nelse: time.sleep(600)",
        "deadlocked", "deadlock", 6, ("cycle of 2 ranks",),
    ),
    "tags that never meet": Bad(
        RANK + "if r == 0: dist.send(x, 1, tag=1)\nif r == 1: dist.recv(x, 0, tag=2)\nif r == 2: dist.recv(x, 1)",
        "deadlocked", "deadlock", 6, ("rank 0 waits to send", "rank 1 waits to receive"),
    ),
    "a rank returns early": Bad(
        RANK + "if r == 2: return\nif r == 0: dist.recv(x, 2)\nif r == 1: dist.send(x, 0)",
        "left_early", "left_early", 7, ("Rank 2 returned", "rank 0 waits to receive"),
    ),
    "receive from any when all others returned": Bad(
        RANK + "if r == 0: dist.recv(x)", "left_early", "left_early", 6, ("message from any rank",),
    ),
    "a collective that one rank skips": Bad(
        RANK + "if r: dist.all_reduce(x)", "left_early", "left_early", 6, ("Rank 0 returned", "all_reduce"),
    ),
    "different collectives": Bad(
        RANK + "if r: dist.barrier()\ndist.all_reduce(x)\nif r == 0: dist.barrier()",
        "mismatched", "mismatched_collective", 7, ("rank 0 called all_reduce", "rank 1 called barrier"),
    ),
    "an exception on one rank": Bad(
        RANK + "if r == 1: [][1]\ndist.all_reduce(x)",
        "crashed", "crash", 6, ("Rank 1 of 3", "IndexError", "list index out of range"),
    ),
    "an error that torch tells in two lines": Bad(
        "dist.send(None, (dist.get_rank() + 1) % 3)",
        "crashed", "crash", 4, ("of type torch.Tensor but got <class 'NoneType'> instead (line 4",),
    ),
    "an exception on every rank": Bad("1 / 0", "crashed", "crash", 4, ("Rank 0 of 3", "2 other ranks")),
    "a segmentation fault": Bad(
        RANK + "if r == 1: os.kill(os.getpid(), 11)\ndist.all_reduce(x)",
        "crashed", "crash", None, ("Rank 1's process was killed by SIGSEGV",),
    ),
    "a message longer than its buffer": Bad(
        RANK + "if r == 0: dist.send(x, 1)\nif r == 1: dist.recv(x[:2], 0)",
        "crashed", "crash", 7, ("receives 8 bytes from rank 0", "sends 16 bytes"),
    ),
    "a message longer than its buffer, before anybody waits": Bad(
        RANK + "if r == 0: dist.send(x, 1)\nif r == 1: request = dist.irecv(x[:2], 0); time.sleep(5)",
        "crashed", "crash", 7, ("receives 8 bytes from rank 0", "sends 16 bytes"),
    ),
    "exit with status 0": Bad(
        RANK + "if r == 1: os._exit(0)\nif r == 0: dist.recv(x, 1)",
        "left_early", "left_early", None, ("Rank 1's process ended with exit status 0",),
    ),
    "exit with status 3": Bad(RANK + "os._exit(3)", "crashed", "crash", None, ("exit status 3",)),
    "sys.exit": Bad(RANK + "sys.exit(0)", "crashed", "crash", 6, ("SystemExit",)),
    "an infinite loop": Bad(
        RANK + "while r == 1: pass", "timed_out", "timeout", 6, ("Rank 1 did not return", "CPU time"),
    ),
    "a long sleep": Bad(RANK + "if r == 2: time.sleep(600)", "timed_out", "timeout", 6, ("Rank 2", "stood still")),
    "no memory": Bad("raise MemoryError", "out_of_memory", "out_of_memory", 4, ("MemoryError",)),
    "a rank that does not exist": Bad(
        RANK + "dist.send(x, 3)", "crashed", "crash", 6, ("send to rank 3", "ranks 0 to 2"),
    ),
    "to itself": Bad(RANK + "dist.send(x, r)", "crashed", "crash", 6, ("ValueError",)),
    "a collective where only messages are allowed": Bad(
        RANK + "dist.all_reduce(x)", "crashed", "forbidden_call", 6, ("dist.all_reduce", "isend"), p2p_only=True,
    ),
    "a forbidden call inside try": Bad(
        RANK + "try: dist.barrier()\nexcept Exception: pass",
        "crashed", "forbidden_call", 6, ("dist.barrier",), p2p_only=True,
    ),
    "endless output": Bad(
        RANK + "while True: print('x' * 1000)", "crashed", "sandbox_violation", None, ("kept printing",),
    ),
    "rubbish on the frame socket": Bad(
        "os.write(3, b'\\xff' * 100)", "crashed", "sandbox_violation", None, ("cannot read",),
    ),
}  # fmt: skip


@pytest.mark.parametrize("bad", BAD.values(), ids=BAD.keys())
def test_a_bad_ending_is_named_with_rank_and_line(engines: Engines, bad: Bad) -> None:
    limits = QUICK if bad.ending == "timed_out" else Limits()  # an error's first sentence may take a while
    result = run(engines, bad.body, bad.ranks, bad.p2p_only, limits)
    assert result.diagnoses, f"ended {result.ending} without a word"
    found = result.diagnoses[0]
    assert (result.ending, found.kind, found.line) == (bad.ending, bad.kind, bad.line), found.message
    for words in bad.words:
        assert words in found.message


@pytest.mark.parametrize(
    ("body", "words"),
    [
        ("if r == 0: dist.isend(x, 1)\nif r == 1: dist.recv(x, 0)", "returned without waiting for its isend"),
        ("if r == 0: dist.send(x, 1)\nif r == 1: dist.irecv(x, 0)", "returned without waiting for its irecv"),
        (
            "if r == 0:\n    q = dist.isend(x, 1); x += 1; q.wait()\nif r == 1: dist.recv(x, 0)",
            "changed a tensor after it had begun to send it",
        ),
        (
            "q = dist.isend(x, (r + 1) % n); dist.recv(x, (r - 1) % n); q.wait()",
            "receives into memory",
        ),
    ],
    ids=["isend", "irecv", "changed", "received into"],
)
def test_a_finished_run_may_still_have_a_race(engines: Engines, body: str, words: str) -> None:
    result = run(engines, RANK + body)
    found = [*result.calls[0].diagnoses] if result.calls else []
    assert result.finished
    assert [words in race.message and race.kind == "race" for race in found][:1] == [True]


@pytest.mark.parametrize(
    "body",
    [
        "q = dist.isend(x, (r + 1) % n); y = torch.zeros(4); dist.recv(y, (r - 1) % n); q.wait()",
        "dist.send(x, 1) if r == 0 else None\nif r == 1: dist.recv(x)\ntime.sleep(0.3)",
        "dist.all_reduce(x); dist.barrier(); dist.broadcast(x, 2)",
        "if r == 0: time.sleep(0.5); dist.send(x, 1)\nif r == 1: dist.recv(x, 0)",
        "ops = [dist.P2POp(dist.isend, x, (r+1)%n), dist.P2POp(dist.irecv, torch.zeros(4), (r-1)%n)]\n"
        "for q in dist.batch_isend_irecv(ops): q.wait()",
    ],
    ids=["ring", "any source", "collectives", "a slow sender", "batch"],
)
def test_legal_programs_finish_without_a_word(engines: Engines, body: str) -> None:
    result = run(engines, RANK + body)
    assert (result.ending, result.diagnoses) == ("finished", ())


def test_arguments_come_back_and_everything_is_counted(engines: Engines) -> None:
    source = (
        "import torch.distributed as dist\n"
        "def f(x):\n    r, n = dist.get_rank(), dist.get_world_size()\n"
        "    q = dist.isend(x.clone(), (r + 1) % n)\n    dist.recv(x, (r - 1) % n)\n    q.wait()\n"
        "    return r, {'x': x}\n"
    )
    tensors = [Strided.of(np.arange(5) + 10 * rank) for rank in range(4)]
    result = engines.run("gloo", Program.of(source, "a.py", "f", ("x",)), 4, [Call(tuple((t,) for t in tensors))])
    call = result.calls[0]
    for rank in range(4):
        np.testing.assert_array_equal(call.arguments[rank][0].view(), np.arange(5) + 10 * ((rank - 1) % 4))
        assert call.returned[rank][0] == rank
        assert (call.trace.bytes_sent(rank), call.trace.messages_sent(rank)) == (40, 1)


def test_an_operation_that_gloo_refuses_is_not_in_the_trace(engines: Engines) -> None:
    result = run(engines, RANK + "if r == 0: dist.recv(x, 1)\nif r == 1: dist.send(torch.zeros(8)[::2], 0)")
    assert (result.ending, result.diagnoses[0].rank) == ("crashed", 1)
    assert [op.name for op in result.trace.all_operations()] == ["recv"]


def test_each_ranks_output_is_kept_apart(engines: Engines) -> None:
    result = run(engines, RANK + "print('out', r); print('err', r, file=sys.stderr)")
    assert result.stdout == ("out 0\n", "out 1\n", "out 2\n")
    assert result.stderr == ("err 0\n", "err 1\n", "err 2\n")


def test_ranks_do_not_share_module_state(engines: Engines) -> None:
    source = "seen = []\ndef f():\n    seen.append(1)\n    return len(seen)\n"
    result = engines.run("gloo", Program.of(source, "a.py", "f"), 3, [same_for_all(3), same_for_all(3)])
    assert [call.returned for call in result.calls] == [(1, 1, 1), (2, 2, 2)]


def test_a_world_of_no_ranks_is_refused(engines: Engines) -> None:
    with pytest.raises(ValueError, match="1 to"):
        engines.run("gloo", Program.of("", "a.py", "f"), 0, [])


@pytest.mark.heavy
def test_sigkill_of_the_grading_process_leaves_nothing(tmp_path: Path) -> None:
    """The whole tree watches its parents' sockets, so it ends however the grading process does."""
    code = (
        "from grader.ranks.engines import Engines\n"
        "from grader.ranks.program import Program, same_for_all\n"
        "source = 'import os, time\\ndef f():\\n    print(os.getpid(), flush=True)\\n    time.sleep(600)\\n'\n"
        "import psutil\n"
        "from grader.sandbox.client import Printed\n"
        "engines = Engines()\n"
        "original = Printed.add\n"
        "def printed(self, number, stream, data):\n"
        "    original(self, number, stream, data)\n"
        "    print(*(p.pid for p in psutil.Process().children(recursive=True)), flush=True)\n"
        "Printed.add = printed\n"
        "engines.run('gloo', Program.of(source, 'a.py', 'f'), 1, [same_for_all(1)])\n"
    )
    environment = {**os.environ, "TMPDIR": str(tmp_path)}
    grading = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True, env=environment)
    assert grading.stdout is not None
    tree = [psutil.Process(int(pid)) for pid in grading.stdout.readline().split()]
    assert len(tree) >= 4  # the host, the keeper, the box's first process and the rank
    grading.send_signal(signal.SIGKILL)
    grading.wait()
    grading.stdout.close()
    _, alive = psutil.wait_procs(tree, timeout=10)
    assert not alive, f"{[process.pid for process in alive]} outlived the grading process"
    assert list(tmp_path.iterdir()) == [], "files of a world were left behind"
