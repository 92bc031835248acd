"""The pictures of the cards that ask to read a diagram, each drawn from a run: `python -m tools.cardpictures`.

Runs are simulated, or end the same way from the same seed, so that a picture is the same each time. Titles say what
runs and never what comes of it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from courselib import batching, commit, election, halving
from courselib.barriers import alignment
from courselib.cluster import cluster, crash, explore, partition
from courselib.jobs import job
from courselib.stores import Store
from courselib.timeline import timeline
from grader import catalog
from grader.nodes.network import Network
from grader.nodes.states import View
from grader.ranks import faults, network
from grader.ranks.engines import Engines
from grader.ranks.network import ROUNDS
from grader.ranks.program import Call, Function, Limits, Program, Run
from grader.trace import diagram, moments

PROGRAMS = Path(__file__).with_name("cardprograms.py").read_text()
FOLDER = catalog.cards() / "pictures"
EVEN = Network(0.02, 0.02)  # every message takes 20 ms
LIMITS = Limits(cpu_seconds=30, idle_seconds=20)

Drawing = Callable[[], str]


class Ranks:
    """Draws what functions of cardprograms.py do on simulated ranks."""

    def __init__(self, engines: Engines) -> None:
        self._engines = engines

    def run(
        self, function: str, arguments: Sequence[Sequence[Any]], wires: str = "", befalls: Sequence[str] = ()
    ) -> Run:
        ranks = len(arguments)
        program = Program(PROGRAMS, "the program", (Function(function),))
        parsed = [faults.parse(text, ranks) for text in befalls]
        calls = [Call(tuple(map(tuple, arguments)))]
        over = network.parse(wires) if wires else ROUNDS
        return self._engines.run("sim", program, ranks, calls, 1, LIMITS, over, faults=parsed, strictly=True)

    def drawn(
        self, function: str, ranks: int, title: str, wires: str = "", befalls: Sequence[str] = (), unit: str = ""
    ) -> str:
        """The space-time diagram, with no cycle marked and no word on how it ended."""
        run = self.run(function, [()] * ranks, wires, befalls)
        trace = run.calls[0].trace if run.calls else run.trace
        return diagram.svg(trace, title, "", (), {}, unit or ("" if wires else "round"))

    def timed(
        self, function: str, ranks: int, wires: str = "", arguments: Callable[[int], Sequence[Any]] | None = None
    ) -> Any:
        """What each rank returned."""
        run = self.run(function, [arguments(rank) if arguments else () for rank in range(ranks)], wires)
        return run.calls[0].returned


def pictures(engines: Engines) -> dict[str, Drawing]:
    """What draws each picture, by the name of its file without the .svg."""
    ranks = Ranks(engines)
    drawings: dict[str, Drawing] = {
        "two-phases": lambda: ranks.drawn("ring", 4, "Four ranks, a tensor of S bytes on each"),
        "one-busy-rank": lambda: ranks.drawn("gather_and_broadcast", 4, "Four ranks, a tensor on each"),
        "who-waits": lambda: ranks.drawn("stuck", 4, "Four ranks send and receive"),
        "partners": lambda: ranks.drawn("recursive_doubling", 8, "Eight ranks, a tensor on each"),
        "steps-with-a-wait": lambda: ranks.drawn("steps", 4, "Three steps on four ranks", "alpha=0.2ms,beta=0"),
        "buckets": lambda: _buckets(ranks),
        "stages": lambda: _stages(ranks),
        "gathers": lambda: ranks.drawn("gathers", 2, "One step on two ranks", "alpha=0.3ms,beta=0"),
        "server-and-workers": lambda: ranks.drawn("server", 4, "A server and three workers", "alpha=0.1ms,beta=0"),
        "silent-rank": lambda: ranks.drawn(
            "steps", 4, "Steps on four ranks; one is no more", "alpha=0.2ms,beta=0", ["kill:1@t=4ms,silent"]
        ),
        "cut-store": _cut_store,
        "two-reads": _two_reads,
        "word-count": _word_count,
        "barriers": lambda: alignment("aligned").picture.svg,
        "in-doubt": _in_doubt,
        "two-leaders": _two_leaders,
        "rungs": _rungs,
        "left-out": lambda: ranks.drawn("leaves_one_out", 3, "Four steps on three ranks"),
        "queue": _queue,
    }
    return {name: lambda draw=draw: moments.still(draw()) for name, draw in drawings.items()}  # type: ignore[misc]


def _buckets(ranks: Ranks) -> str:
    (computes, sends), _ = ranks.timed("buckets", 2, "alpha=0.1ms,beta=8ns")
    return timeline("One backward pass on one of two ranks", {"computes": computes, "network": sends}).svg


def _stages(ranks: Ranks) -> str:
    returned = ranks.timed("one_forward_one_backward", 4, "alpha=0,beta=0", lambda rank: (8,))
    kinds = {"F": "forward", "B": "backward"}
    rows = {
        f"stage {stage}": [(since, until, name, kinds[name[0]]) for since, until, name in boxes]
        for stage, boxes in enumerate(returned)
    }
    return timeline("Four stages, eight micro-batches", rows, kinds=[*kinds.values()]).svg


def _write(value: int) -> dict[str, Any]:
    return {"type": "write", "key": "x", "value": value}


READ = {"type": "read", "key": "x"}


def _cut_store() -> str:
    asks = {
        "a": [("n1", _write(1), 0.2), ("n1", _write(2), 1.2), ("n1", READ, 0.4)],
        "b": [("n3", READ, 0.7), ("n3", READ, 1.2)],
    }
    run = cluster(Store, 3, asks, [partition(1.0, 3.0, "n1 n2", "n3")], 3.0, network=EVEN)
    return run.picture("A store of three nodes through a partition", " ").svg


def _two_reads() -> str:
    def backwards(view: View) -> str | None:
        values = [answer["value"] for *_, answer in view.history if answer and answer["type"] == "read_ok"]
        return "found" if values == [1, None] else None

    asks = {"w": [("n1", _write(1))], "r": [("n2", READ), ("n3", READ)]}
    found = explore(Store, 3, asks, backwards, only_home=("write",), acks=2)
    return found.picture("One client writes, another reads twice", " ").svg


def words(split: str) -> list[tuple[str, int]]:
    return [(word, 1) for word in split.split()]


def total(key: str, values: list[int]) -> int:
    return sum(values)


def _word_count() -> str:
    splits = [
        "to be or not to be",
        "that is the question",
        "to sleep to dream",
        "to die to sleep",
        "to be that is",
        "to be",
    ]
    return job(words, total, splits, deaths=[5], title="A word count; worker w3 is killed").picture().svg


def _in_doubt() -> str:
    begin = {"client": [("coord", {"type": "begin"})]}
    dies = [crash(0.05, 9, "coord")]
    run = cluster(commit.KINDS, commit.banks("A B"), begin, dies, 0.9, network=EVEN, watched=["state"])
    return run.picture("A transfer between banks A and B", " ").svg


def _two_leaders() -> str:
    def append(value: str) -> dict[str, Any]:
        return {"type": "append", "value": value}

    asks = {"c1": [("n1", append("a"), 0.7), ("n1", append("b"), 0.5)]}
    cut = [partition(1, 2.4, "n1", "n2 n3")]
    run = cluster(election.Elector, 3, asks, cut, 1.5, 1, watched=["role", "term"])
    return run.picture("Three nodes; from 1 s on n1 is cut off", " ").svg


def _rungs() -> str:
    losses = halving.curves(halving.draw(9, seed=2), epochs=9)
    return halving.in_step(losses, 1, 3, workers=3, pace=[1.0] * 8 + [4.0]).picture("Nine trials on three workers").svg


def _queue() -> str:
    served = batching.serve(300, 16, 0.0, lambda size: 0.008 + 0.001 * size, requests=60, seed=2)
    return served.picture("Requests, and a model that answers what waits", until=0.12).svg


def main() -> None:
    """Write all pictures."""
    FOLDER.mkdir(exist_ok=True)
    with Engines() as engines:
        for name, draw in pictures(engines).items():
            (FOLDER / f"{name}.svg").write_text(draw())


if __name__ == "__main__":
    main()
