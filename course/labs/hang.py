"""A training that hangs, and what each tool says of it: three gloo ranks, of which rank 1 leaves out one all-reduce.

    python hang.py [--json]

The same job four times: hanging, and looked into by py-spy (or faulthandler) and the flight recorder; until the group's
timeout; with TORCH_DISTRIBUTED_DEBUG=DETAIL; and with that, where rank 1 calls another collective than the others.
"""

from __future__ import annotations

import contextlib
import ctypes
import faulthandler
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import threading
import time
from datetime import timedelta
from pathlib import Path
from typing import Any

from servers import PR_SET_PDEATHSIG, Seen, Servers, main, until

RANKS, STEPS, BAD = 3, 6, 3
PATIENCE = {"hangs": 120, "timeout": 2, "detail": 2, "mismatch": 2}  # seconds, of the group


def training(rank: int, store: Any, group: Any, mismatch: bool) -> None:
    """Six steps; rank 1 skips the batch of step 3, and with it the all-reduce that the others wait in."""
    import torch
    import torch.distributed as dist

    for step in range(STEPS):
        gradient = torch.full((1000,), float("nan") if (rank, step) == (1, BAD) else 1.0)
        if gradient.isnan().any():
            continue  # "a bad batch: leave it out"
        if mismatch and (rank, step) == (1, BAD + 1):
            dist.broadcast(gradient, 0, group)
        else:
            dist.all_reduce(gradient, group=group)
    if rank == 0:
        store.set("saved", "")
    store.wait(["saved"])  # all wait until rank 0 has saved the epoch


def all_ranks(folder: Path) -> None:
    """Every rank of every job, forked from this process, which has imported torch for all; waits for them."""
    import torch
    import torch.distributed

    torch.set_num_threads(1)  # and so it may be forked
    for job in PATIENCE:
        (folder / job).mkdir()
        for rank in range(RANKS):
            if os.fork() == 0:
                ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, int(signal.SIGKILL), 0, 0, 0)
                with contextlib.suppress(BaseException):
                    rank_main(rank, job, folder / job)
                os._exit(0)  # gloo would wait for its peers
    with contextlib.suppress(ChildProcessError):
        while True:
            os.wait()


def rank_main(rank: int, job: str, folder: Path) -> None:
    """One rank, which writes down what it raised; when somebody asks, also its flight recorder's entries."""
    import torch.distributed as dist

    if job in ("detail", "mismatch"):
        dist.set_debug_level(dist.DebugLevel.DETAIL)  # what TORCH_DISTRIBUTED_DEBUG=DETAIL sets
    faulthandler.register(signal.SIGUSR1, (folder / f"stack-{rank}").open("w"), all_threads=False)
    files = dist.FileStore(str(folder / "meeting"), RANKS)
    dist.init_process_group("gloo", store=files, timeout=timedelta(seconds=120), world_size=RANKS, rank=rank)
    waiting = timedelta(seconds=PATIENCE[job])
    group = dist.new_group(timeout=waiting)  # the ranks have met: from now on nobody is late by having started late
    files.set_timeout(waiting)
    threading.Thread(target=tell, args=(rank, folder), daemon=True).start()
    write(folder / f"begun-{rank}", str(os.getpid()))
    written = "finished"
    try:
        training(rank, dist.PrefixStore("epoch", files), group, job == "mismatch")
    except Exception as error:
        written = f"{type(error).__name__}: {error}"
    write(folder / f"end-{rank}", written)


def write(path: Path, text: str) -> None:
    """Puts a file in its place with all that is in it."""
    path.with_suffix(".part").write_text(text)
    os.replace(path.with_suffix(".part"), path)


def tell(rank: int, folder: Path) -> None:
    """The last collectives that this rank knows of, once the file `ask` is there."""
    from torch._C._distributed_c10d import _dump_fr_trace_json

    until("somebody asks", 600, (folder / "ask").exists)
    entries = json.loads(_dump_fr_trace_json())["entries"]
    kept = [[e["collective_seq_id"], e["profiling_name"]] for e in entries if e["profiling_name"] == "gloo:all_reduce"]
    write(folder / f"recorder-{rank}", json.dumps(kept))


def lab(servers: Servers, seen: Seen) -> None:
    """Starts the four jobs at once, and looks at them one after another."""
    os.environ["TORCH_FR_BUFFER_SIZE"] = "2000"
    servers.start("ranks", [sys.executable, str(Path(__file__).resolve()), "--ranks", str(servers.folder)])
    hanging(servers.folder / "hangs", seen)
    for job, title in (("timeout", f"the group's timeout, {PATIENCE['timeout']} s"), ("detail", "DEBUG=DETAIL"),
                       ("mismatch", "DEBUG=DETAIL, rank 1 broadcasts")):  # fmt: skip
        ended(servers.folder / job, seen, job, title)


def hanging(folder: Path, seen: Seen) -> None:
    """Where each rank stands, and which collectives it knows of."""
    stacks = dict.fromkeys(range(RANKS), "")
    stood: list[tuple[float, list[str]]] = []  # where all were, and since when

    def all_stand() -> bool:
        """Whether everybody has been at one and the same place for a second: a rank that moves is not stuck."""
        for rank in range(RANKS):
            stacks[rank] = stack(int((folder / f"begun-{rank}").read_text()), folder / f"stack-{rank}")
        places = [_where(text) for text in stacks.values()]
        if not stood or stood[-1][1] != places:
            stood.append((time.monotonic(), places))
        return all(places) and time.monotonic() > stood[-1][0] + 1

    until("every rank has begun", 120, lambda: all((folder / f"begun-{rank}").exists() for rank in range(RANKS)))
    until("every rank waits", 60, all_stand)
    seen.row("the job", "three processes alive, no error, no line in any log")
    for rank, text in stacks.items():
        tool = "py-spy dump" if text.startswith("Process ") else "faulthandler, by SIGUSR1"
        seen.row(f"{tool}, rank {rank}", _where(text))
        seen.figures[f"stands {rank}"] = _where(text)
    (folder / "ask").touch()
    until("every rank told", 60, lambda: all((folder / f"recorder-{rank}").exists() for rank in range(RANKS)))
    for rank in range(RANKS):
        entries = json.loads((folder / f"recorder-{rank}").read_text())
        number, name = entries[-1]
        seen.row(f"flight recorder, rank {rank}", f"the last collective is number {number}, {name}")
        seen.figures[f"recorded {rank}"] = number


def stack(process: int, written: Path) -> str:
    """The stack of a process: py-spy's, where it is installed and allowed, and else what faulthandler writes."""
    if spy := _spy():
        done = subprocess.run([spy, "dump", "--pid", str(process)], check=False, capture_output=True, text=True)
        if done.returncode == 0:
            return re.sub(r"\x1b\[[0-9;]*m", "", done.stdout)  # a notebook's environment asks for colours
    with contextlib.suppress(ProcessLookupError):
        os.kill(process, signal.SIGUSR1)
    return written.read_text()[-4000:]


def _spy() -> str | None:
    beside = Path(sys.executable).with_name("py-spy")
    return shutil.which("py-spy") or (str(beside) if beside.exists() else None)


def _where(text: str) -> str:
    """The line of `training` in a stack, if it waits for somebody there: "line 43: dist.all_reduce(...)"."""
    lines = Path(__file__).read_text().splitlines()
    for found in re.finditer(r"training \([^)]*hang\.py:(\d+)\)|hang\.py\", line (\d+) in training", text):
        number = int(found[1] or found[2])
        code = lines[number - 1].partition("  #")[0].strip()
        if code.startswith(("dist.", "store.wait")):
            return f"line {number}: {code}"
    return ""


def ended(folder: Path, seen: Seen, job: str, title: str) -> None:
    """What each rank raised, in a word, and in the figures in full."""
    until("every rank ended", 120, lambda: all((folder / f"end-{rank}").exists() for rank in range(RANKS)))
    for rank in range(RANKS):
        text = (folder / f"end-{rank}").read_text()
        seen.row(f"{title}: rank {rank}", short(text))
        seen.figures[f"{job} {rank}"] = text


def short(text: str) -> str:
    """The part of a message that says what happened."""
    plain = re.sub(r"\[/[^\]]*\] ?", "", text)
    lines = [line.strip() for line in plain.splitlines() if line.strip()]
    telling = [line for line in lines if re.search(r"Rank|rank|Timed out|mismatch|timeout", line)]
    return (telling or lines or [""])[0].replace(": CollectiveFingerPrint(", " ").partition(", TensorShape")[0][:240]


if __name__ == "__main__":
    if sys.argv[1:2] == ["--ranks"]:
        all_ranks(Path(sys.argv[2]))
    else:
        sys.exit(main(lab, sys.argv[1:]))
