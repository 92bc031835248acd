"""Jobs of torchrun in a box: torch's elastic agent, the workers that run the learner's script, and what these leave.

The agent is the one that torchrun starts, with the same rendezvous and restarts; its workers are forked from the warm
process in place of being started cold, which saves seconds each. For the harnesses of exercises, which kill workers or
whole nodes at file operations. An agent never loads the script.
"""

from __future__ import annotations

import contextlib
import json
import os
import resource
import signal
import sys
import tempfile
import time
import types
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import torch
from torch.distributed.elastic.multiprocessing.api import SignalException

from grader.ranks import learner
from grader.ranks.lives.life import told as told_of

PATIENCE_SECONDS = 20.0  # the agent may wait that long for a worker that is to end
CPU_SECONDS = 5  # of a worker
AGENTS_CPU_SECONDS = 60
SHUTDOWN_SECONDS = 10  # from SIGTERM to SIGKILL; 30 is what torchrun waits
SHARED_MEMORY = Path("/dev/shm")  # where the agent's semaphores are, also in a box that shares it with others
TICK_SECONDS = 0.02
LOCAL = "127.0.0.1"


def _script(code: types.CodeType, scratch: str, arguments: list[str]) -> None:
    """In a worker: run the script as Python runs a file."""
    resource.setrlimit(resource.RLIMIT_CPU, (CPU_SECONDS, CPU_SECONDS + 1))
    module = types.ModuleType("__main__")
    module.__file__ = os.path.join(scratch, code.co_filename)
    sys.modules["__main__"] = module
    sys.argv = [code.co_filename, *arguments]
    torch.manual_seed(0)
    if any(event["why"] == "stuck" for event in notes(scratch)):
        sys.exit(1)  # a restart would not end either
    try:
        exec(code, module.__dict__)
    except SystemExit as left:
        if left.code not in (0, None):
            _note(scratch, code, RuntimeError(f"the script left with exit status {left.code}"))
            raise
    except SignalException:  # the agent ends this worker, because another one is gone or a node joins
        raise
    except BaseException as error:
        learner.print_traceback(error)
        _note(scratch, code, error)
        raise
    signal.signal(signal.SIGTERM, signal.SIG_DFL)  # the script may have had another one
    if Path(scratch, f"told-{os.getpid()}").exists():
        sys.stdout.flush()
        os._exit(0)  # as a script's process ends; a function's would wait until the agent has taken what it returned


def _note(scratch: str, code: types.CodeType, error: BaseException) -> None:
    told = told_of(error, code.co_filename, "call")
    note = Path(scratch, f"note-{os.environ['RANK']}-{os.getpid()}")
    note.write_text(json.dumps(told))
    note.rename(note.with_suffix(".json"))  # the agent may end this process at any moment


def _end_as_scripts(scratch: Path) -> None:
    """In an agent: have workers know that they are told to end, and not be waited for longer than the harness waits."""
    from torch.distributed.elastic.multiprocessing.api import MultiprocessContext

    context: Any = MultiprocessContext
    close = context._close

    def told(self: Any, death_sig: signal.Signals, timeout: int = 30) -> None:
        for process in self._pc.processes if self._pc else ():
            (scratch / f"told-{process.pid}").touch()
        close(self, death_sig, min(timeout, SHUTDOWN_SECONDS))

    context._close = told


def notes(scratch: str) -> list[dict[str, Any]]:
    """How workers ended that raised something, as the grading process is told of it."""
    return [json.loads(path.read_text()) for path in sorted(Path(scratch).glob("note-*.json"))]


def own_errors(scratch: str) -> list[dict[str, Any]]:
    """Those of them that say more than that a peer was gone."""
    return [event for event in notes(scratch) if event["why"] != "peer"]


def first_raised(errors: list[dict[str, Any]]) -> dict[str, Any] | None:
    """The first of them, as judges read it: its text, and the line of the script."""
    return next(({"text": f"{e['type']}: {e['text']}".rstrip(": "), "line": e.get("line")} for e in errors), None)


def agent(
    functions: dict[str, Any], scratch: str, arguments: list[str], workers: int, restarts: int, endpoint: str = "",
    began: int = 1,
) -> str:  # fmt: skip
    """What torchrun does on one machine: an agent that starts the workers, and all of them anew when one is gone.

    Without an `endpoint` it is alone (`--standalone`). With one, it is of one or two nodes (`--nnodes 1:2`) that meet
    there; `began` of them begin together, and one that comes later waits until the harness lets it join (see `Nodes`).
    How it ended: "finished", "failed", or "stayed away" where it never joined.
    """
    from torch.distributed.elastic.multiprocessing.errors import ChildFailedError
    from torch.distributed.elastic.rendezvous import dynamic_rendezvous
    from torch.distributed.elastic.rendezvous.api import RendezvousClosedError
    from torch.distributed.launcher.api import LaunchConfig, elastic_launch

    number = int(os.environ["RANK"])
    dynamic_rendezvous.get_method_name = lambda *_: ""  # for events that nobody records; it takes a second of CPU time
    os.environ.update(TORCH_DISABLE_SHARE_RDZV_TCP_STORE="1", OMP_NUM_THREADS="1")
    for name in ("RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE"):
        os.environ.pop(name, None)
    _end_as_scripts(Path(scratch))
    nodes = Nodes(Path(scratch))
    if endpoint:
        nodes.tune()
    config = LaunchConfig(
        min_nodes=1, max_nodes=2 if endpoint else 1, nproc_per_node=workers, run_id="job", rdzv_backend="c10d",
        rdzv_endpoint=endpoint or f"{LOCAL}:0", max_restarts=restarts, monitor_interval=0.05, start_method="fork",
        local_addr=LOCAL,
        rdzv_configs={"is_host": False, "keep_alive_max_attempt": 1000} if endpoint else {},
    )  # fmt: skip
    with nodes.here(number):
        if number >= began and not nodes.let_in():
            return "stayed away"
        try:
            elastic_launch(config, _script)(functions["$code"], scratch, arguments)
        except ChildFailedError:
            return "failed"
        except RendezvousClosedError:
            return "too late"
    return "finished"


class Nodes:
    """Which nodes of a job are there, as files next to it. The harness knows; the agents' rendezvous is told.

    On a real cluster a node is taken for dead after some missed heartbeats, and one that is alone waits some seconds
    for others. Then it would be a matter of the machine's speed what happens, so agents look here in place of a clock.
    """

    def __init__(self, scratch: Path) -> None:
        self.scratch = scratch

    @contextlib.contextmanager
    def here(self, number: int) -> Iterator[None]:
        """An agent, from its start to its end."""
        (self.scratch / f"agent-{number}").write_text(str(os.getpid()))
        try:
            yield
        finally:
            (self.scratch / f"over-{os.getpid()}").touch()

    def expect(self, two: bool) -> None:
        """Whether the next round of the rendezvous is of two nodes."""
        path = self.scratch / "two"
        path.touch() if two else path.unlink(missing_ok=True)

    def lost(self, number: int) -> None:
        """A node is killed."""
        self.expect(two=False)
        (self.scratch / f"over-{(self.scratch / f'agent-{number}').read_text()}").touch()

    def join(self) -> None:
        """Let the node join that has waited."""
        self.expect(two=True)
        (self.scratch / "join").touch()

    def let_in(self) -> bool:
        """In an agent that comes later: wait until it is to join. False when all the others are over."""
        while not (self.scratch / "join").exists():
            others = [path.read_text() for path in self.scratch.glob("agent-*")]
            if all(self._over(other) for other in others if other not in ("", str(os.getpid()))) and len(others) > 1:
                return False
            time.sleep(TICK_SECONDS)
        return True

    def _over(self, pid: str) -> bool:
        return (self.scratch / f"over-{pid}").exists()

    def tune(self) -> None:
        """In an agent: have its rendezvous ask here who is gone and whom to wait for, and look for changes often."""
        from torch.distributed.elastic.rendezvous import dynamic_rendezvous as rendezvous

        holder: Any = rendezvous._BackendRendezvousStateHolder
        sanitize = holder._sanitize

        def told_who_is_gone(self: Any) -> None:
            for node in self.state.last_heartbeats:
                if nodes._over(str(node.pid)):
                    self.state.last_heartbeats[node] = datetime.min.replace(tzinfo=UTC)
            sanitize(self)

        def last_call(_: Any) -> timedelta:
            return timedelta(seconds=600 if (nodes.scratch / "two").exists() else 2 * TICK_SECONDS)

        nodes = self
        holder._sanitize = told_who_is_gone
        holder.__init__.__defaults__ = (TICK_SECONDS,)  # how long it believes what it last read
        rendezvous.RendezvousTimeout.last_call = property(last_call)
        rendezvous._delay = lambda seconds: time.sleep(TICK_SECONDS)


def prepared(x: torch.Tensor, y: torch.Tensor, options: dict[str, Any]) -> tuple[Path, Path, list[str]]:
    """A job's directories, its own and the one that its checkpoints are in, and the arguments of its script."""
    scratch = Path(tempfile.mkdtemp(prefix="job-"))
    folder = scratch / "work"
    folder.mkdir()
    torch.save({"x": x, "y": y}, scratch / "data.pt")
    arguments = ["--data", str(scratch / "data.pt"), "--work", str(folder)]
    for name, value in options.items():
        arguments += [f"--{name}", str(value)]
    return scratch, folder, arguments


def lines(path: Path, *fields: str) -> list[list[Any]]:
    """The lines of a log: of each its step, its rows, and other integers that it has; [] for one that is none."""
    found: list[Any] = []
    for line in path.read_text(errors="replace").splitlines() if path.exists() else ():
        try:
            told = json.loads(line)
            rows = [int(row) for row in told["rows"]]
            found.append([int(told["step"]), rows, *(int(told[name]) for name in fields)])
        except (ValueError, KeyError, TypeError, OverflowError):
            found.append([])
    return found


def final(path: Path) -> Any:
    """The names and the tensors of a state_dict that was saved, or what is there in its place."""
    if not path.exists():
        return "no final.pt"
    try:
        state = torch.load(path, weights_only=True)
        return {str(name): tensor for name, tensor in state.items()}
    except Exception as error:
        return f"a final.pt that cannot be loaded ({type(error).__name__})"
