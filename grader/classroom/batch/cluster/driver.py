"""The process that speaks with a Ray cluster for `pool.ClusterPool`.

    python -m grader.classroom.batch.cluster.driver '{"address": ..., "workers": ..., "trust": ...}'

The first line on stdout is {"about": ..., "remarks": [...]} or {"refused": sentence}. Then lines come on stdin,
{"start": number of jobs} or {"jobs": [Job.to_json, ...]}, and one line on stdout for each job as it is done: {"number":
its place in the list, and what `Done.to_json` gives}, or again {"about": ...} where
something is lost. Ends at end of file on stdin; Ray ends the actors with the process that made them, however it ends.
"""

from __future__ import annotations

import json
import os
import sys
import threading
import time
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from queue import Empty, SimpleQueue
from typing import Any

import ray
from ray.exceptions import RayError

from grader.classroom.batch.cluster import machines, slot
from grader.classroom.batch.cluster.machines import Machine
from grader.classroom.batch.pool import TRIES, Job
from grader.classroom.version import version

LOSSES = 3  # how often a job may go down with a slot or a whole machine before it is taken for the cause
STARTS = 4  # how often in a row a slot is started without getting a job done
START_SECONDS = 60.0  # how long to count on a slot that is being started
FREE_SECONDS = 120.0  # how long to wait for a first processor, if others use the cluster too
GRACE_SECONDS = 60.0  # beyond a job's deadline, which the slot itself sees to
_TICK = 0.2  # seconds for which a new line on stdin may go unnoticed

Say = Callable[[dict[str, Any]], None]


@dataclass(eq=False)
class Task:
    """A job, its place in the list, and the tries at it so far; `failed_on` is the node of the last that failed."""

    number: int
    job: Job
    tries: int = 0
    losses: int = 0
    seconds: float = 0.0
    failed_on: str = ""


@dataclass(eq=False)
class Place:
    """A slot on a machine. `ref` is what it was asked last: to get ready if `task` is None, else to grade.

    It is idle with neither, and `until` is when an answer can be expected.
    """

    machine: Machine
    name: str
    actor: Any = None
    ref: Any = None
    task: Task | None = None
    until: float = 0.0
    starts: int = 0


def places(found: Sequence[Machine], most: int | None) -> list[Place]:
    """The slots of all machines, at most so many, as evenly spread as they can be."""
    rounds = range(max(machine.slots for machine in found))
    spread = [machine for number in rounds for machine in found if number < machine.slots]
    return [Place(machine, f"worker {number} on {machine.name}") for number, machine in enumerate(spread[:most], 1)]


class Work:
    """Hands jobs out to slots, and says what comes of them. One thread's."""

    def __init__(self, slots: list[Place], trust: bool, say: Say) -> None:
        self._places, self._trust, self._say = slots, trust, say
        self._waiting: deque[Task] = deque()
        self._served = time.monotonic()  # when a slot was ready last
        self._why = ""  # what became of the last slot that was lost
        self._actor: Any = ray.remote(num_cpus=1, max_restarts=0, max_task_retries=0)(slot.Slot)

    @property
    def about(self) -> str:
        """Who works, for people."""
        workers, there = len(self._places), len({place.machine.node for place in self._places})
        return f"{workers} worker{'s' * (workers != 1)} on {there} machine{'s' * (there != 1)} of a Ray cluster"

    @property
    def idle(self) -> bool:
        """Whether nothing will happen before there are new jobs."""
        return not self._waiting and all(place.ref is None for place in self._places)

    def start(self, count: int) -> None:
        """Let so many slots get ready."""
        for place in [place for place in self._places if place.actor is None][:count]:
            self._start(place)

    def add(self, jobs: Sequence[Job]) -> None:
        """Grade these."""
        self._waiting.extend(Task(number, job) for number, job in enumerate(jobs))
        self._served = time.monotonic()
        self.start(len(jobs))

    def step(self) -> None:
        """Hand out what can be handed out, and hear what there is to hear, for a moment."""
        for place in self._places:
            if place.actor is not None and place.ref is None:
                self._give(place)
        asked = {place.ref: place for place in self._places if place.ref is not None}
        if asked:
            for ref in ray.wait(list(asked), timeout=_TICK)[0]:
                self._hear(asked[ref])
        now = time.monotonic()
        for place in [place for place in self._places if place.task is not None and now > place.until]:
            self._lose(place, "it stopped answering")
        if self._serving():
            self._served = now
        if not self._places:
            self._give_up(f"no machine of the Ray cluster is left: {self._why}")
        elif now > self._served + FREE_SECONDS:
            self._give_up(f"no processor of the Ray cluster was free for {FREE_SECONDS:g} seconds")

    def _start(self, place: Place) -> None:
        place.starts += 1
        place.actor = self._actor.options(scheduling_strategy=place.machine.here).remote(self._trust)
        place.ref, place.task = place.actor.get_ready.remote(), None
        place.until = time.monotonic() + START_SECONDS

    def _serving(self) -> list[Place]:
        """Those that are ready, or grade."""
        return [place for place in self._places if place.actor is not None and (place.task or place.ref is None)]

    def _give(self, place: Place) -> None:
        """Hand it the first job that has not failed on its machine, unless there is no other machine to try it on."""
        here, now = place.machine.node, time.monotonic()
        coming = [other for other in self._places if other.ref is not None and other.task is None and now < other.until]
        alone = all(other.machine.node == here for other in (*self._serving(), *coming))
        task = next((task for task in self._waiting if alone or task.failed_on != here), None)
        if task is None:
            return
        self._waiting.remove(task)
        place.task, place.until = task, time.monotonic() + task.job.deadline + GRACE_SECONDS
        place.ref = place.actor.grade.remote(task.job.to_json())

    def _hear(self, place: Place) -> None:
        try:
            answer = ray.get(place.ref, timeout=GRACE_SECONDS)
        except RayError as error:
            self._lose(place, type(error).__name__)
            return
        task, place.task, place.ref = place.task, None, None
        if task is None:
            return
        said = json.loads(answer)
        place.starts = 0
        task.tries += 1
        task.seconds += said["seconds"]
        if "problem" in said and task.tries < TRIES:
            task.failed_on = place.machine.node
            self._waiting.appendleft(task)
            self.start(1)
        else:
            self._say({**said, "number": task.number, "seconds": task.seconds, "worker": place.name})

    def _lose(self, place: Place, why: str) -> None:
        """A slot is gone, or must go: what it had goes to another, and it is started anew if its machine is there."""
        task, place.ref, place.task = place.task, None, None
        self._why = f"{place.name} was lost: {why}"
        if task is not None:
            task.losses += 1
            if task.losses < LOSSES:
                self._waiting.appendleft(task)
            else:
                problem = f"its worker was lost {LOSSES} times, at last {place.name}: {why}"
                self._say({"number": task.number, "problem": problem, "worker": place.name})
        ray.kill(place.actor)
        if place.starts < STARTS and any(node["Alive"] for node in ray.nodes() if node["NodeID"] == place.machine.node):
            self._start(place)
        else:
            self._places.remove(place)
            self.start(1)
            self._say({"about": self.about})

    def _give_up(self, why: str) -> None:
        while self._waiting:
            self._say({"number": self._waiting.popleft().number, "problem": why})


def main() -> None:
    """Connect, and serve until end of file."""
    answers = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)  # whoever prints to stdout must not be taken for an answer
    lines: SimpleQueue[str] = SimpleQueue()
    threading.Thread(target=_read, args=(lines,), daemon=True).start()

    def say(what: dict[str, Any]) -> None:
        print(json.dumps(what), file=answers, flush=True)

    wanted = json.loads(sys.argv[1])
    try:
        machines.connect(wanted["address"])
        found, remarks = machines.usable(machines.look(), version(), wanted["trust"])
    except machines.Refused as error:
        say({"refused": str(error)})
        return
    work = Work(places(found, wanted["workers"]), wanted["trust"], say)
    say({"about": work.about, "remarks": remarks})
    while True:
        try:
            asked = json.loads(lines.get(block=work.idle))
        except Empty:
            work.step()
            continue
        work.start(asked.get("start", 0))
        work.add([Job.from_json(line) for line in asked.get("jobs", ())])


def _read(lines: SimpleQueue[str]) -> None:
    for line in sys.stdin:
        lines.put(line)
    os._exit(0)  # in the middle of whatever it is


if __name__ == "__main__":
    main()
