"""`rankup nodes run`: from the words on the command line to a run, or to a sentence that says what is wrong."""

from __future__ import annotations

import math
import os
import random
import shutil
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from grader.nodes.histories.transactions import LEVELS
from grader.nodes.processes import nemesis, run
from grader.nodes.processes.network import Weather
from grader.nodes.processes.run import Outcome, Settings
from grader.nodes.workloads import kafka, mix, transactions
from grader.nodes.workloads.mix import Mix
from grader.nodes.workloads.registry import WORKLOADS
from grader.nodes.workloads.topology import TOPOLOGIES
from grader.nodes.workloads.workload import Workload
from grader.submission import BadRequest

MOST_NODES = 100
MOST = 1000  # keys, operations of a transaction, writes of a key


@dataclass(frozen=True)
class Wanted:
    """What was asked for, as it was written: times in seconds but for `latency`, which is in milliseconds."""

    workload: str
    nodes: int
    command: Sequence[str]
    nemesis: str = ""
    interval: float = 2.0
    rate: float = 20.0
    time_limit: float = 10.0
    latency: float = 0.0
    drop: float = 0.0
    duplicate: float = 0.0
    topology: str = "grid"
    seed: int | None = None
    isolation: str = transactions.ISOLATION
    key_count: int | None = None  # the workload's own if None
    max_txn_length: int = mix.LONGEST
    max_writes_per_key: int = mix.WRITES


def play(wanted: Wanted) -> Outcome:
    """Run it. Raises BadRequest for a request that makes no sense, a command that cannot be run among them."""
    outcome = run.play(settings(wanted))
    if outcome.trouble is not None and outcome.trouble.kind == "no_command":
        raise BadRequest(outcome.trouble.message.partition(" ")[2].removesuffix("."))
    return outcome


def settings(wanted: Wanted) -> Settings:
    """The run that was asked for. Raises BadRequest."""
    if wanted.workload not in WORKLOADS:
        raise BadRequest(f"no workload is called {wanted.workload!r}; choose from {', '.join(WORKLOADS)}")
    if wanted.topology not in TOPOLOGIES:
        raise BadRequest(f"no topology is called {wanted.topology!r}; choose from {', '.join(TOPOLOGIES)}")
    if not 1 <= wanted.nodes <= MOST_NODES:
        raise BadRequest(f"--nodes must be from 1 to {MOST_NODES}, not {wanted.nodes}")
    for name, value in (("--drop", wanted.drop), ("--duplicate", wanted.duplicate)):
        if not 0 <= value < 1:
            raise BadRequest(f"{name} must be a probability below 1, not {value:g}")
    for name, value in (("--rate", wanted.rate), ("--latency", wanted.latency)):
        if not 0 <= value < math.inf:
            raise BadRequest(f"{name} must be a finite number, 0 or more, not {value:g}")
    for name, value in (("--time-limit", wanted.time_limit), ("--nemesis-interval", wanted.interval)):
        if not 0 < value < math.inf:
            raise BadRequest(f"{name} must be a finite number of seconds above 0, not {value:g}")
    return Settings(
        workload=_workload(wanted),
        command=_command(wanted.command),
        nodes=wanted.nodes,
        kinds=_kinds(wanted.nemesis, wanted.nodes),
        interval=wanted.interval,
        rate=wanted.rate,
        seconds=wanted.time_limit,
        weather=Weather(wanted.latency / 1000, wanted.drop, wanted.duplicate),
        topology=wanted.topology,
        seed=random.SystemRandom().randrange(2**31) if wanted.seed is None else wanted.seed,
    )


def _workload(wanted: Wanted) -> Workload:
    """The workload; those of transactions and logs as the options say."""
    name = wanted.workload
    if wanted.isolation not in LEVELS:
        raise BadRequest(f"no isolation level is called {wanted.isolation!r}; choose from {', '.join(LEVELS)}")
    if name not in transactions.WRITES and wanted.isolation != transactions.ISOLATION:
        raise BadRequest(f"--isolation is for {' and '.join(transactions.WRITES)}, not for {name}")
    for option, number in (
        ("--key-count", wanted.key_count or 1),
        ("--max-txn-length", wanted.max_txn_length),
        ("--max-writes-per-key", wanted.max_writes_per_key),
    ):
        if not 1 <= number <= MOST:
            raise BadRequest(f"{option} must be from 1 to {MOST:,}, not {number}")
    drawn = Mix(wanted.key_count or mix.KEYS, wanted.max_txn_length, wanted.max_writes_per_key)
    if name in transactions.WRITES:
        return transactions.workload(name, wanted.isolation, drawn)
    if name == "kafka":
        return kafka.workload(drawn if wanted.key_count else replace(drawn, keys=kafka.KEYS))
    return WORKLOADS[name]


def _kinds(text: str, nodes: int) -> tuple[str, ...]:
    kinds = tuple(filter(None, (each.strip() for each in text.split(","))))
    for kind in kinds:
        if kind not in nemesis.KINDS:
            raise BadRequest(f"no fault is called {kind!r}; choose from {', '.join(nemesis.KINDS)}")
        least = nemesis.LEAST_NODES.get(kind, 2 if kind in ("partition", *nemesis.PARTITIONS) else 1)
        if nodes < least:
            raise BadRequest(f"{kind} needs at least {least} nodes, and --nodes is {nodes}")
    return kinds


def _command(words: Sequence[str]) -> tuple[str, ...]:
    if not words:
        raise BadRequest("give the command that each node runs, after --, such as -- python3 echo.py")
    program, *rest = words
    if shutil.which(program) is not None:
        return (program, *rest)
    if os.sep not in program:
        raise BadRequest(
            f"{program}: no such command" + (f"; did you mean ./{program}?" if Path(program).is_file() else "")
        )
    if not Path(program).exists():
        raise BadRequest(f"{program}: no such file")
    if Path(program).is_dir():
        raise BadRequest(f"{program}: is a folder, not a program")
    raise BadRequest(f"{program}: is not executable; run `chmod +x {program}`, or write its interpreter before it")


def check_writable(path: Path) -> None:
    """Raise BadRequest where a file at `path` could not be written in the end: better now than after the run."""
    if not path.parent.is_dir():
        raise BadRequest(f"{path}: no such folder to write to")
    if path.is_dir():
        raise BadRequest(f"{path}: is a folder")
    if not os.access(path.parent, os.W_OK):
        raise BadRequest(f"{path}: its folder is not writable")
