"""Generators that wait for a quorum, lives counted on disk, unanswered questions put again, an error in the end."""

import json
from collections.abc import Generator
from typing import Any

from grader.nodes import Node

AGAIN = 0.5
TRIES = 6


def newest(copies: list[Any]) -> list[Any]:
    return max(copies, key=lambda copy: copy[0])


class Task:
    """A request being served: its generator yields (how many replicas, what to ask them)."""

    def __init__(self, request: Any, steps: Generator[Any, Any, Any]) -> None:
        self.request, self.steps = request, steps
        self.round = self.tries = self.need = 0
        self.question: dict[str, Any] = {}
        self.heard: set[str] = set()
        self.found: list[Any] = []


class QuorumStore(Node):
    write_quorum: int
    read_quorum: int

    def on_start(self) -> None:
        self.life = self.disk.get("life", 0) + 1
        self.disk["life"] = self.life
        self.count = 0
        self.tasks: dict[str, Task] = {}

    def have(self, name: str) -> list[Any]:
        return self.disk.get("copy " + name, [[0, ""], None])

    def answer(self, question: dict[str, Any]) -> list[Any]:
        """What a replica does: take the copy in the question if it is newer, and tell its own."""
        name, copy = question["name"], question.get("copy")
        if copy is not None and copy[0] > self.have(name)[0]:
            self.disk["copy " + name] = copy
        return self.have(name)

    def on_message(self, src: str, body: dict[str, Any]) -> None:
        kind = body["type"]
        if kind == "read":
            self.start(body, self.read(json.dumps(body["key"])))
        elif kind == "write":
            self.start(body, self.write(json.dumps(body["key"]), body["value"]))
        elif kind == "question":
            copy = self.answer(body["question"])
            self.send(src, {"type": "answer", "number": body["number"], "round": body["round"], "copy": copy})
        elif kind == "answer":
            task = self.tasks.get(body["number"])
            if task is not None and task.round == body["round"]:
                task.heard.add(src)
                task.found.append(body["copy"])
                if len(task.heard) >= task.need:
                    self.resume(body["number"], task)

    def on_timer(self, name: str) -> None:
        task = self.tasks.get(name)
        if task is None:
            return
        task.tries += 1
        if task.tries >= TRIES:
            del self.tasks[name]
            self.reply(task.request, {"type": "error", "code": 0, "text": "no quorum in time"})
        else:
            self.ask(name, task)
            self.set_timer(name, AGAIN)

    def read(self, name: str) -> Generator[Any, Any, Any]:
        best = newest((yield self.read_quorum, {"name": name}))
        yield self.write_quorum, {"name": name, "copy": best}
        return {"type": "read_ok", "value": best[1]}

    def write(self, name: str, value: Any) -> Generator[Any, Any, Any]:
        best = newest((yield self.read_quorum, {"name": name}))
        counter = max(best[0][0], self.have(name)[0][0]) + 1
        yield self.write_quorum, {"name": name, "copy": [[counter, self.id], value]}
        return {"type": "write_ok"}

    def start(self, request: Any, steps: Generator[Any, Any, Any]) -> None:
        self.count += 1
        number = f"{self.life}.{self.count}"
        task = self.tasks[number] = Task(request, steps)
        self.set_timer(number, AGAIN)
        self.resume(number, task)

    def resume(self, number: str, task: Task) -> None:
        while True:
            try:
                task.need, task.question = task.steps.send(task.found or None)
            except StopIteration as end:
                del self.tasks[number]
                self.cancel_timer(number)
                self.reply(task.request, end.value)
                return
            task.round += 1
            task.heard = {self.id}
            task.found = [self.answer(task.question)]
            if task.need > 1:
                self.ask(number, task)
                return

    def ask(self, number: str, task: Task) -> None:
        for peer in self.peers:
            if peer not in task.heard:
                self.send(
                    peer, {"type": "question", "number": number, "round": task.round, "question": task.question}
                )
