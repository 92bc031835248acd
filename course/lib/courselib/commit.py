"""Commit protocols to look at: two phases, three phases, and participants that do not wait.

They show the messages and what each waits for, and keep nothing on disk: a crash is for good here. What must be forced
to a log before which message, and the recovery from it, is what the exercise `two_phase_commit` asks for.
"""

from __future__ import annotations

from typing import Any

from courselib.cluster import Run
from grader.nodes.node import Node
from grader.nodes.sim import Member


class Coordinator(Node):
    """A client says `begin`; all participants are asked; all yes means commit; a no, or no answer for `patience`
    seconds, means abort. With three phases, all are told that all said yes (`pre-commit`, Skeen 1981) before anybody
    may commit."""

    phases, patience = 2, 1.0

    def on_start(self) -> None:
        self.request: dict[str, Any] = {}
        self.heard: dict[str, set[str]] = {"vote": set(), "ready": set()}

    def on_message(self, src: str, body: dict[str, Any]) -> None:
        match body["type"]:
            case "begin":
                self.request = body
                self._tell("prepare")
                self.set_timer("votes", self.patience)
            case "how?" | "done":  # who has no log cannot say how it ended
                pass
            case _ if not self.request:  # it has decided, or started again and knows nothing
                pass
            case "vote" if body["yes"]:
                if self._all("vote", src):
                    self.cancel_timer("votes")
                    self._tell("pre-commit") if self.phases == 3 else self._decide("commit")
            case "vote":
                self._decide("abort")
            case "ready":
                if self._all("ready", src):
                    self._decide("commit")

    def on_timer(self, name: str) -> None:
        self._decide("abort")

    def _all(self, what: str, src: str) -> bool:
        self.heard[what].add(src)
        return len(self.heard[what]) == len(self.peers)

    def _decide(self, outcome: str) -> None:
        request, self.request = self.request, {}
        self.cancel_timer("votes")
        self._tell(outcome)
        self.reply(request, {"type": "committed" if outcome == "commit" else "aborted"})

    def _tell(self, what: str) -> None:
        for peer in self.peers:
            self.send(peer, {"type": what})


class Participant(Node):
    """Its `state` is working, yes (locked, in doubt), ready (pre-committed), committed or aborted.

    Whom the coordinator leaves waiting for `patience` seconds asks all others. With two phases it believes only one who
    knows the outcome, and goes on waiting; an `impatient` one aborts instead. With three phases it decides, after as
    long again: commit if anybody is ready or has committed, else abort. `can` is False where it must refuse.
    """

    phases, patience, impatient, can = 2, 0.5, False, True

    def on_start(self) -> None:
        self.state, self.others = "working", set[str]()

    def on_message(self, src: str, body: dict[str, Any]) -> None:
        match body["type"]:
            case "prepare":
                self.state = "yes" if self.can else "aborted"
                self.send(src, {"type": "vote", "yes": self.can})
                self._wait()
            case "pre-commit" if self.state == "yes":
                self.state = "ready"
                self.send(src, {"type": "ready"})
                self._wait()
            case "commit" | "abort" as outcome:
                self._end("committed" if outcome == "commit" else "aborted")
                self.send(src, {"type": "done"})
            case "how?":
                self.send(src, {"type": "state", "state": self.state})
            case "state":
                self.others.add(body["state"])
                if body["state"] in ("committed", "aborted"):
                    self._end(body["state"])
            case "write":
                locked = self.state in ("yes", "ready")
                self.reply(body, {"type": "error", "code": 11, "text": "locked"} if locked else {"type": "write_ok"})

    def on_timer(self, name: str) -> None:
        if self.impatient:
            self._end("aborted")
        elif name == "decide":
            known = {self.state, *self.others}
            self._end("committed" if known & {"ready", "committed"} else "aborted")
        else:
            self.others = set()
            for peer in self.peers:
                self.send(peer, {"type": "how?"})
            self.set_timer("decide" if self.phases == 3 else "doubt", self.patience)

    def _wait(self) -> None:
        self.cancel_timer("decide")
        if self.state in ("yes", "ready"):
            self.set_timer("doubt", self.patience)

    def _end(self, outcome: str) -> None:
        if self.state in ("yes", "ready"):
            self.state = outcome
        self.cancel_timer("doubt")
        self.cancel_timer("decide")


KINDS = {"Coordinator": Coordinator, "Participant": Participant}


def banks(names: str, phases: int = 2, **settings: Any) -> list[Member]:
    """A coordinator, and a participant for each of the names ("A B"), with these settings."""
    participants = [Member(name, "Participant", (), {"phases": phases, **settings}) for name in names.split()]
    return [Member("coord", "Coordinator", (), {"phases": phases}), *participants]


def ended(run: Run) -> dict[str, str]:
    """The last state of each participant; `run` must watch "state"."""
    changes = [event for event in run.story.events if event.what == "state" and event.node != "coord"]
    return {event.node: event.text.removeprefix("state = ") for event in changes}


def outcomes(states: dict[str, Any]) -> str | None:
    """What is wrong with states of participants by name: that one committed and another aborted. None if nothing is."""
    ended = {state: name for name, state in sorted(states.items()) if state in ("committed", "aborted")}
    return f"{ended['committed']} committed, {ended['aborted']} aborted" if len(ended) == 2 else None
