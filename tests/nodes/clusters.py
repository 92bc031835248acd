"""Small node programs for the tests of the engine: right ones and ones with a bug."""

from __future__ import annotations

from typing import Any

from grader.nodes import Node


class Echo(Node):
    """Answers every request, and counts on disk how many it had."""

    def on_start(self) -> None:
        self.lives = self.disk.get("lives", 0) + 1
        self.disk["lives"] = self.lives
        self.had = 0

    def on_message(self, src: str, body: dict[str, Any]) -> None:
        self.had += 1
        self.reply(body, {"type": "echo_ok", "had": self.had, "lives": self.lives})


class Gossip(Node):
    """Tells everybody what it knows, every 0.1 s."""

    def on_start(self) -> None:
        self.known: set[int] = set()
        self.set_timer("gossip", 0.1)

    def on_timer(self, name: str) -> None:
        self.send(self.random.choice(self.peers), {"type": "gossip", "known": sorted(self.known)})
        self.set_timer("gossip", 0.1)

    def on_message(self, src: str, body: dict[str, Any]) -> None:
        if body["type"] == "add":
            self.known.add(body["element"])
            self.reply(body, {"type": "add_ok"})
        elif body["type"] == "read":
            self.reply(body, {"type": "read_ok", "value": sorted(self.known)})
        else:
            self.known |= set(body["known"])


class Vote(Node):
    """n1 asks the others to vote; who votes says so on disk first. `forgets`: it does not write it down."""

    forgets = False

    def on_start(self) -> None:
        self.yes: list[str] = []

    def on_message(self, src: str, body: dict[str, Any]) -> None:
        match body["type"]:
            case "elect":
                for peer in self.peers:
                    self.send(peer, {"type": "vote?", "for": body["name"]})
            case "vote?":
                given = self.disk.get("voted") or getattr(self, "voted", None)
                if given is None:
                    self.voted = given = body["for"]
                    if not self.forgets:
                        self.disk["voted"] = given
                if given == body["for"]:
                    self.send(src, {"type": "vote", "for": given})
            case "vote":
                self.yes.append(src)
                if len(self.yes) == 2:
                    self.send("c1", {"type": "elected", "name": body["for"], "in_reply_to": 1})
