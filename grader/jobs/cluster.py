"""A driver and its workers: real processes, of which one after another is killed or stands still, as a seed says.

Tasks really run, each in its worker's process. When each is over is decided here, in virtual time, and so is which
worker dies in which task, and who stands still: the same seed gives the same run. Bytes are counted as they pass.
"""

from __future__ import annotations

import math
import random
import time
from collections import Counter, deque
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from grader.lost import Lost
from grader.sandbox import endings, frames
from grader.sandbox.client import NONSENSE, Beyond, Client, Gone, Overdue, Patience, plain
from grader.sandbox.endings import MOST_NAME, Raised
from grader.sandbox.limits import MIB, BoxLimits
from grader.sandbox.warm import Warm
from grader.submission import Source, Submission
from grader.trace.gantt import Bar, Chart
from grader.verdict import Kind

DRIVER = 0
LIMITS = BoxLimits(memory_bytes=1024 * MIB)
CPU_SECONDS = 5.0  # of one task, or of the driver between two questions
IDLE_SECONDS = 10.0
STDOUT_BYTES = 2**20
DEATH = 0.5  # virtual seconds after a task's begin, and so before any that began with it is done
MOST_TASKS = 2_000
MOST_WAITS = 5_000  # in a row that end with nothing, questions for the number of workers counted among them
MOST_POLLS = 1_000  # in a row of which none was long enough: the next one lasts until a task is over
MOST_BYTES = 128 * MIB  # of all tasks' arguments together: they are kept here, to be sent when a worker is idle
MOST_UNREAD = 4 * MOST_TASKS  # messages of the driver that wait here; a worker says one thing at a time
JOB_SECONDS = 60.0  # real ones, of a whole job
BEYOND = {
    "memory": "The driver and the workers used {used:,.0f} MiB of memory, and at most {allowed:,.0f} MiB are allowed. "
    "Keep less data at a time.",
    "printing": "The job printed {used:,.0f} bytes, all that is allowed. Print less.",
    "cpu": "The job used {used:.1f} s of CPU time, and at most {allowed:g} s are allowed.",
    "": "The job had {used:g} processes and threads, and at most {allowed:g} are allowed. Start fewer of them.",
}


@dataclass(frozen=True)
class Job:
    """What run() is called with, and what befalls its workers.

    `functions` are the names in `given` of map_fn, reduce_fn and combine_fn (or None). Of all different tasks, as they
    first begin (from 1), `deaths` are those during which their worker is killed, `still` those that stand still for
    good; a task that is submitted again with the same arguments is no other one. A number that stands there twice says
    that its second try ends like the first. With `hash_seeds` every worker hashes strings its own way.
    """

    functions: tuple[str, str, str | None]
    inputs: Sequence[Any]
    workers: int = 3
    reducers: int = 3
    deaths: tuple[int, ...] = ()
    still: tuple[int, ...] = ()
    hash_seeds: bool = False
    seed: int = 0
    label: str = ""


@dataclass
class Ran:
    """One submitted task and what became of it. Times are virtual seconds; sizes are those of the pickled values."""

    number: int
    function: str
    line: int | None
    given: int
    worker: int | None = None
    begin: float = 0.0
    end: float | None = None
    became: str = "queued"  # running, done, failed, died
    returned: int = 0
    raised: str = ""


@dataclass
class Done:
    """A job that came to its end: what run() returned, as pairs, and every task."""

    job: Job
    items: list[tuple[Any, Any]] | None
    type_name: str
    tasks: list[Ran]
    different: int  # tasks that began, each counted once however often it was submitted with the same arguments
    chart: Chart

    @property
    def returned_bytes(self) -> int:
        """What all tasks together returned, pickled."""
        return sum(task.returned for task in self.tasks)


def name_of(worker: int) -> str:
    return f"w{worker}"


class Cluster:
    """One job's processes. Raises Lost, with the picture up to then, where the job cannot come to its end."""

    def __init__(self, warm: Warm, submission: Submission, call: str, job: Job) -> None:
        self._call, self.job = call, job
        self.file, self.source = submission.name, Source(submission.name, submission.source)
        self._program = {"source": submission.source, "file": submission.name, "function": call}
        self._rng = random.Random(f"job {job.seed}")
        self.now, self._waits = 0.0, 0
        self.tasks: list[Ran] = []
        self._calls: list[tuple[str, bytes]] = []  # of each task, the function's name and its arguments
        self._queue: deque[int] = deque()
        self._alive = list(range(1, job.workers + 1))
        self._idle = deque(self._alive)
        self._running: dict[int, int] = {}  # task by worker
        self._tried: dict[tuple[str, bytes], list[int]] = {}  # tasks that have begun, by what they are, and each try
        self._began = time.monotonic()
        self._dies: set[int] = set()  # workers, in the task at hand
        self._still: set[int] = set()  # tasks
        self._heard: Ran | None = None  # whose end the driver heard of last
        self.chart = Chart(tuple(map(name_of, self._alive)))
        self._client = Client(warm.box(1 + job.workers, LIMITS), IDLE_SECONDS, STDOUT_BYTES, take=self._take)

    # ---- the life of a job

    def run(self) -> Done:
        """From the first process to the result."""
        try:
            try:
                return self._run()
            except Beyond as beyond:
                raise self._lost(*endings.beyond(beyond, BEYOND)) from None
            except NONSENSE:
                raise self._lost(*endings.NO_ANSWER) from None
        except Lost as lost:
            lost.picture = self._charted()
            raise
        finally:
            self._client.close()

    def _run(self) -> Done:
        self._start()
        job = self.job
        self._client.post(DRIVER, {
            "call": self._call, "functions": job.functions, "inputs": job.inputs, "reducers": job.reducers,
        })  # fmt: skip
        while True:
            message = self._hear(DRIVER)
            told = message.header
            match told.get("event"):
                case "count":
                    self._unmoved(None)
                    self._client.post(DRIVER, {"count": len(self._alive)})
                case "submit":
                    self._submit(str(told["function"]), told["line"], message.blob)
                case "wait":
                    self._wait(told["timeout"], told["line"])
                case "returned":
                    return self._done(told)
                case "raised":
                    raise self._raised(told)
                case _:
                    raise ValueError

    def _start(self) -> None:
        everybody = range(1 + self.job.workers)
        self._client.post(DRIVER, {"program": "job", "role": "driver"})
        for worker in self._alive:
            seed = self._rng.randrange(1, 2**32) if self.job.hash_seeds else 1
            self._client.post(worker, {"program": "job", "role": "worker", "hash_seed": seed})
        for number in everybody:
            if self._hear(number).header.get("event") != "up":
                raise ValueError
            self._client.post(number, self._program)
        for number in everybody:
            told = self._hear(number).header
            if told.get("event") == "raised":
                raise self._raised(told)
            if told.get("event") != "loaded":
                raise ValueError
            if told["problem"]:
                text = f"{self.file} {told['problem']!s:.200}. Define {self._call}(...)."
                raise self._lost("missing_function", text, expected=f"def {self._call}(...)")

    def _done(self, told: dict[str, Any]) -> Done:
        items = None
        if told.get("type") == "dict":
            tree = frames.decode(told["items"], b"", lambda *_: None)
            items = list({_hashable(key): value for key, value in tree}.items())
        return Done(self.job, items, str(told.get("type"))[:100], self.tasks, len(self._tried), self._charted())

    # ---- what the driver asks

    def _submit(self, function: str, line: Any, blob: bytes) -> None:
        if len(self.tasks) >= MOST_TASKS:
            raise self._lost("timeout", f"run() submitted more than {MOST_TASKS:,} tasks. {self._repeated()}")
        if sum(task.given for task in self.tasks) + len(blob) > MOST_BYTES:
            text = f"The arguments of all tasks take more than {MOST_BYTES // MIB} MiB. Pass less to each task."
            raise self._lost("too_many_bytes", text)
        line = line if isinstance(line, int) else None
        self.tasks.append(Ran(len(self.tasks), plain(function, 100), line, len(blob)))
        self._calls.append((function, blob))
        self._queue.append(self.tasks[-1].number)
        self._assign()

    def _assign(self) -> None:
        """Give queued tasks to idle workers."""
        while self._queue and self._idle:
            number, worker = self._queue.popleft(), self._idle.popleft()
            task = self.tasks[number]
            task.worker, task.begin, task.became = worker, self.now, "running"
            self._running[worker] = number
            what = self._calls[number]
            tries = self._tried.setdefault(what, [])
            tries.append(number)
            nth = list(self._tried).index(what) + 1
            task.end = self.now + self._rng.uniform(1.0, 3.0)
            if len(tries) <= self.job.deaths.count(nth):
                self._dies.add(worker)
                task.end = self.now + DEATH
            elif len(tries) <= self.job.still.count(nth):
                self._still.add(number)
                task.end = None
            self._client.post(worker, {"function": what[0]}, what[1])

    def _wait(self, timeout: Any, line: Any) -> None:
        if timeout is not None and not (isinstance(timeout, int | float) and timeout >= 0):
            raise ValueError
        timeout = None if timeout == math.inf else timeout
        line = line if isinstance(line, int) else None
        due = [(end, worker) for worker, number in self._running.items() if (end := self.tasks[number].end) is not None]
        if not due and timeout is None:
            raise self._stuck(line)
        polls = due and self._waits >= MOST_POLLS
        if timeout is not None and not polls and (not due or min(due)[0] > self.now + timeout):
            self.now += timeout
            self._unmoved(line)
            self._client.post(DRIVER, {"kind": None})
            return
        self._waits = 0
        self.now, worker = min(due)
        self._client.post(DRIVER, *self._over(worker))
        self._assign()

    def _unmoved(self, line: int | None) -> None:
        """The driver has learnt nothing new. Raises Lost where that goes on and on."""
        self._waits += 1
        if self._waits <= MOST_WAITS:
            return
        if any(self.tasks[number].end is not None for number in self._running.values()):
            text = (
                f"run() asked {MOST_WAITS:,} times in a row{self.source.quote(line)} for the number of workers, "
                "although tasks are running. Virtual time passes only in wait_any. Call it to hear what became of them."
            )
            raise self._lost("deadlock", text, line, "the job ends", "no event")
        raise self._stuck(line)

    def _over(self, worker: int) -> tuple[dict[str, Any], bytes]:
        """What the driver hears of the task that is over now."""
        self._heard = task = self.tasks[self._running[worker]]
        if worker in self._dies:
            self._client.end(worker)
        message = self._hear_or_end(worker, worker in self._dies)
        del self._running[worker]
        if message is None:
            self._alive.remove(worker)
            task.became = "died"
            self.chart.gone[name_of(worker)] = self.now
            return {"kind": "died", "task": task.number}, b""
        self._idle.append(worker)
        if message.header.get("event") == "failed":
            task.became = "failed"
            task.raised = f"{str(message.header['type'])[:MOST_NAME]}: {str(message.header['text'])[:500]}"
            return {"kind": "failed", "task": task.number, "value": task.raised}, b""
        if message.header.get("event") != "done" or not message.blob:
            raise ValueError
        task.became, task.returned = "done", len(message.blob)
        return {"kind": "done", "task": task.number}, message.blob

    # ---- the processes

    def _hear(self, process: int) -> frames.Message:
        """The next message of a process. Raises Lost where there is none to come."""
        message = self._hear_or_end(process)
        if message is None:
            how = self._client.status[process]
            who = "The driver" if process == DRIVER else f"Worker {name_of(process)}"
            raise self._lost("crash", f"{who} {endings.died(how)} before it was done.")
        return message

    def _hear_or_end(self, process: int, killed: bool = False) -> frames.Message | None:
        """The next message of a process, or None where it ended; one that is killed says nothing any more."""
        while True:
            left = self._began + JOB_SECONDS - time.monotonic()
            try:
                message = self._client.wait(process, Patience(CPU_SECONDS, IDLE_SECONDS, wall=left))
            except Gone:
                return None
            except Overdue as overdue:
                if overdue.limit == "wall":
                    text = f"The job was not done after {JOB_SECONDS:g} seconds. Look for work that takes too long."
                    raise self._lost("timeout", text) from None
                raise self._endless(process) from None
            if not killed:
                return message

    def _take(self, process: int, frame: frames.Message | frames.Events) -> None:
        """Raises ValueError where more waits here to be read than a job has to say."""
        if not isinstance(frame, frames.Message):
            return
        inboxes = self._client.inbox
        inboxes[process].append(frame)
        if len(inboxes[process]) > (MOST_UNREAD if process == DRIVER else 1):
            raise ValueError
        if frame.blob and sum(len(message.blob) for inbox in inboxes for message in inbox) > 2 * MOST_BYTES:
            raise ValueError

    # ---- words

    def _charted(self) -> Chart:
        """What ran where, as a picture has it."""
        chart, seen = self.chart, set()
        chart.end, chart.subtitle = self.now + 0.3, self.job.label
        for task in self.tasks:
            if task.worker is None:
                continue
            same = self._calls[task.number]
            became = {"running": "done"}.get(task.became, task.became)
            if task.number in self._still:
                became = "still"
            elif became == "done" and same in seen:
                became = "again"
            seen.add(same)
            end = self.now if task.end is None or task.became == "running" else task.end
            chart.bars.append(
                Bar(name_of(task.worker), task.begin, end, f"{task.function} {task.number}", became)  # type: ignore[arg-type]
            )
        return chart

    def _lost(self, kind: Kind, text: str, line: int | None = None, expected: str = "", got: str = "") -> Lost:
        return Lost.because(kind, text, file=self.file, line=line, expected=expected, got=got)

    def _repeated(self) -> str:
        """Whether most tasks are the same one, and how it ended."""
        what, times = Counter(self._calls).most_common(1)[0]
        same = [self.tasks[number] for number, each in enumerate(self._calls) if each == what]
        failed, done = ([task for task in same if task.became == became] for became in ("failed", "done"))
        different = len(set(self._calls))
        if different <= len(self.tasks) // 10 and times <= len(self.tasks) // 2:
            return (
                f"Only {different:,} of them are different. Submit a copy only of a task that died or is late, and use "
                "a longer timeout if you submit copies after each."
            )
        if times <= len(self.tasks) // 2 or not (failed or done):
            return "Submit fewer tasks with more work each."
        said = f"{times:,} of them are the same call of {what[0]}"
        if failed:
            return (
                f"{said}, which failed {len(failed):,} times. The last time it raised {failed[-1].raised[:200]}. Fix "
                "this error. Submit a task again when its worker died, not when it failed."
            )
        return f'{said}, which came back with "done" {len(done):,} times. Do not submit again what has come back.'

    def _stuck(self, line: int | None) -> Lost:
        where = self.source.quote(line)
        if not self._alive:
            text = f"run() waits forever{where}, because all workers have died."
            return self._lost("deadlock", text, line)
        done = {self._calls[task.number] for task in self.tasks if task.became == "done"}
        still = [self.tasks[number] for number in sorted(self._still)]
        standing = [task for task in still if self._calls[task.number] not in done]
        lost, failed = (
            [task for task in self.tasks if task.became == became and self._calls[task.number] not in done]
            for became in ("died", "failed")
        )
        nothing = "no event can come any more" if still else "nothing is queued or running"
        if standing or (still and not lost and not failed):
            task, advice = still[0], "The same task was done elsewhere, so return without waiting for this one."
            if standing:
                task, advice = standing[0], "Call wait_any with a timeout, and then submit that task a second time."
            text = (
                f"run() waits forever{where}. Task {task.number} ({task.function}) has stood still on "
                f"{name_of(task.worker or 0)} since {task.begin:.1f} s, and no other task is left to wait for. {advice}"
            )
            copies = [one for one in standing[1:] if self._calls[one.number] == self._calls[task.number]]
            if copies:
                on = f"{name_of(copies[-1].worker or 0)} since {copies[-1].begin:.1f} s"
                text += (
                    f" Its copy, task {copies[-1].number}, stands still on {on}. Submit one more after each timeout."
                )
        elif lost:
            task = lost[-1]
            text = (
                f"run() waits forever{where}: {nothing}. Task {task.number} ({task.function}) was "
                f"lost when {name_of(task.worker or 0)} was killed at {task.end or 0:.1f} s. Submit a lost task again."
            )
        elif failed:
            task = failed[-1]
            text = (
                f"run() waits forever{where}: {nothing}. Task {task.number} ({task.function}) "
                f'raised {task.raised[:200]}. Fix this error, and do not wait for a task after its "failed" event.'
            )
        else:
            text = f"run() waits forever{where}: nothing is queued or running. Stop waiting once every task is done."
        return self._lost("deadlock", text, line, "the job ends", "nothing to wait for")

    def _endless(self, process: int) -> Lost:
        if process == DRIVER:
            text = "run() neither waited for a task nor returned. Look for a loop or a call that never ends."
            return self._lost("timeout", text)
        task = self.tasks[self._running[process]] if process in self._running else None
        what = f"Task {task.number} ({task.function})" if task else "The program"
        return self._lost("timeout", f"{what} did not end on {name_of(process)}. Look for a loop that never ends.")

    def _raised(self, told: dict[str, Any]) -> Lost:
        error = Raised.read(told)
        when = ", when it was loaded" if error.stage == "load" else ", in run()"
        kind, text = endings.raised(error, self.file, self.source.quote(error.line), when)
        if error.stage == "call" and (task := self._heard):
            same = [each for each in self.tasks if self._calls[each.number] == self._calls[task.number]]
            if all(each.became == "died" for each in same):
                times = f" That piece of work has now been lost {len(same)} times." if len(same) > 1 else ""
                text += (
                    f' The last event was "died" for task {task.number} ({task.function}), because its worker '
                    f"{name_of(task.worker or 0)} died.{times} Submit a lost task again, however often it is lost."
                )
        if error.stage == "call" and self.job.label:
            text += f' This happened in the job "{self.job.label}".'
        return self._lost(kind, text, error.line)


def _hashable(key: Any) -> Any:
    return tuple(map(_hashable, key)) if isinstance(key, list) else key
