"""MapReduce jobs of a chapter's own functions, on real worker processes of which some are killed or stand still.

    run = job(words, total, splits, combine_fn=total, workers=3, reducers=2, deaths=[5])
    run                     who did what when, as a time line
    run.result, run.written what came out, and which reducer wrote it
    run.twice, run.tasks    which tasks ran more than once, and every task
    run.shuffled            bytes that map tasks handed on

Tasks run in processes of their own and die by SIGKILL; how long each takes is drawn, in virtual seconds, from the seed.
"""

from __future__ import annotations

import atexit
import inspect
import textwrap
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

from courselib import master
from courselib.svg import Drawn, Plot
from courselib.timeline import Box, timeline
from grader.jobs.cluster import Cluster, Done, Job, Ran, name_of
from grader.ranks import WORKER
from grader.sandbox.warm import Warm
from grader.submission import BadRequest, Submission

KINDS = ("map", "reduce", "a second time", "stands still", "", "killed in it")  # in the order of their colours


@dataclass(frozen=True)
class JobRun(Drawn):
    """A job that came to its end. Shown, it is its time line. `names` says what each task was: "map 0", "reduce 2"."""

    done: Done
    names: list[str]
    written: list[list[tuple[Any, Any]]]

    @property
    def result(self) -> dict[Any, Any]:
        """All that reducers wrote, by key. Where a key has gone to several of them, the last one's."""
        return dict(pair for part in self.written for pair in part)

    @property
    def tasks(self) -> list[tuple[str, Ran]]:
        """Every task that began, with its name, in the order in which they were submitted."""
        return [(name, task) for name, task in zip(self.names, self.done.tasks, strict=True) if task.worker]

    @property
    def twice(self) -> list[str]:
        """The names of those that were begun more than once."""
        return [name for name, times in Counter(name for name, _ in self.tasks).items() if times > 1]

    @property
    def shuffled(self) -> int:
        """Bytes that map tasks handed on, pickled: each counted once for every time it was done."""
        return sum(task.returned for name, task in self.tasks if name.startswith("map"))

    @property
    def seconds(self) -> float:
        """Virtual seconds to the end of the last task that was waited for."""
        return max(task.end or 0.0 for _, task in self.tasks if task.became == "done")

    def picture(self, title: str = "") -> Plot:
        """Who did what when. A worker that stands still does so until the job's end."""
        rows: dict[str, list[Box]] = {name_of(worker): [] for worker in range(1, self.done.job.workers + 1)}
        before: set[str] = set()
        for name, task in self.tasks:
            over = self.seconds if task.end is None else min(self.seconds, task.end)
            kind = "a second time" if name in before else name.split()[0]
            kind = "stands still" if task.end is None else "killed in it" if task.became == "died" else kind
            rows[name_of(task.worker or 0)].append((task.begin, over, name, kind))
            before.add(name)
        return timeline(title or self.done.job.label, rows, until=self.seconds, kinds=KINDS)


@cache
def _warm() -> Warm:
    """One host for all jobs of a chapter."""
    warm = Warm(WORKER)
    atexit.register(warm.close)
    return warm


def job(
    map_fn: Callable[..., Any], reduce_fn: Callable[..., Any], splits: Sequence[Any],
    combine_fn: Callable[..., Any] | None = None, partition: Callable[[Any, int], int] | None = None, *,
    workers: int = 3, reducers: int = 2, deaths: Sequence[int] = (), still: Sequence[int] = (), seed: int = 1,
    patience: float = 4.0, title: str = "A MapReduce job",
) -> JobRun:  # fmt: skip
    """Run a job on `workers` processes, each of which hashes strings its own way, as on a machine of its own.

    The functions are taken by their text: they use nothing but their arguments and what they import themselves. Splits
    and results are plain data (text, numbers, lists). Of all tasks, as they begin (from 1), `deaths` are those during
    which their worker is killed, `still` those in which it stands still. When nobody has said anything for `patience`
    virtual seconds, what is not done is given out a second time. Raises BadRequest for a function without text, Trouble
    for one that raises.
    """
    functions = {"map_fn": map_fn, "reduce_fn": reduce_fn, "combine_fn": combine_fn, "partition": partition}
    texts = {fn.__name__: _text(fn) for fn in functions.values() if fn is not None}
    names = [fn.__name__ if fn is not None else None for fn in functions.values()]
    start = f"def start(_map, _reduce, splits, workers, reducers):\n    return mapreduce({names[0]}, {names[1]}, " \
        f"{names[2]}, {names[3] or 'stable'}, splits, workers, reducers, {float(patience)})\n"  # fmt: skip
    source = "\n\n".join([inspect.getsource(master), *texts.values(), start])
    asked = Job(("words", "total", None), list(splits), workers, reducers, tuple(deaths), tuple(still),
                hash_seeds=True, seed=seed, label=title)  # fmt: skip
    done = Cluster(_warm(), Submission(source, "the chapter"), "start", asked).run()
    told = dict(done.items or ())
    written = [[(_key(key), value) for key, value in part] for part in told["written"]]
    return JobRun(done, told["names"], written)


def _text(function: Callable[..., Any]) -> str:
    try:
        text = textwrap.dedent(inspect.getsource(function))
    except (OSError, TypeError):
        text = ""
    if not text.startswith("def ") or hasattr(master, function.__name__):
        raise BadRequest(f"job() needs functions that are defined by `def` in a cell or a file, not {function!r}")
    return text


def _key(key: Any) -> Any:
    return tuple(map(_key, key)) if isinstance(key, list) else key
