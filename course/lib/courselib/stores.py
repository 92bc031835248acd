"""A replicated key-value store for the chapters on CAP: one program, and what it gives up is a matter of settings."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from courselib.cluster import Run
from courselib.table import Table, table
from grader.nodes.node import Node


class Store(Node):
    """A copy of every key. `only_home` are the requests that the home alone answers: other nodes ask it.

    A write is answered when `acks` other nodes have confirmed that they have it. A node that has waited `patience`
    seconds answers with an error of this `code`: 0 (timeout) promises nothing, 11 (unavailable) promises that the
    request has no effect (Maelstrom's protocol, errors).
    """

    home = "n1"
    only_home: tuple[str, ...] = ()
    acks = 0
    patience = 0.5
    code = 0

    def on_start(self) -> None:
        self.data: dict[str, Any] = {}
        self.waiting: list[dict[str, Any]] = []
        self.seen: dict[str, int] = {}

    def on_message(self, src: str, body: dict[str, Any]) -> None:
        match body["type"]:
            case "ask":  # from a node that may not answer this itself
                self.serve(body, body["request"])
            case "told":
                self.finish(body["number"], body["answer"])
            case "copy" if body["number"] > self.seen.get(src, -1):  # one sender's copies in its order, as over TCP
                self.seen[src], self.data[body["key"]] = body["number"], body["value"]
                if body.get("confirm"):
                    self.send(src, {"type": "have", "number": body["number"]})
            case "have":
                self.finish(body["number"], {"type": "write_ok"})
            case "read" | "write" if body["type"] in self.only_home and self.id != self.home:
                self.send(self.home, {"type": "ask", "number": self.wait(body, 1), "request": body})
            case "read" | "write":
                self.serve(body, body)

    def serve(self, request: dict[str, Any], asked: dict[str, Any]) -> None:
        if asked["type"] == "read":
            self.answer(request, {"type": "read_ok", "value": self.data.get(asked["key"])})
            return
        self.data[asked["key"]] = asked["value"]
        copy = {"type": "copy", "key": asked["key"], "value": asked["value"]}
        copy |= {"confirm": True} if self.acks else {}
        number = self.wait(request, self.acks)
        for peer in self.peers if "read" not in self.only_home or self.acks else ():
            self.send(peer, {**copy, "number": number})
        if not self.acks:
            self.finish(number, {"type": "write_ok"})

    def wait(self, request: dict[str, Any], missing: int) -> int:
        """Note who is to be answered after so many messages; or, after `patience`, with an error."""
        self.waiting.append({"request": request, "missing": missing})
        self.set_timer(str(len(self.waiting) - 1), self.patience)
        return len(self.waiting) - 1

    def finish(self, number: int, answer: dict[str, Any]) -> None:
        """One message less is missing; the last one brings the answer."""
        one = self.waiting[number]
        one["missing"] -= 1
        if one["missing"] <= 0 and one["request"]:
            self.cancel_timer(str(number))
            self.answer(one["request"], answer)
            one["request"] = None

    def on_timer(self, name: str) -> None:
        self.waiting[int(name)]["missing"] = 0
        self.finish(int(name), {"type": "error", "code": self.code, "text": "no answer in time"})

    def answer(self, request: dict[str, Any], answer: dict[str, Any]) -> None:
        asked = request["type"] == "ask"
        self.reply(request, {"type": "told", "number": request["number"], "answer": answer} if asked else answer)


def inside(run: Run, kind: str) -> list[float]:
    """Seconds that each answered request of this kind spent in the store, from its arrival at a node to its answer.

    The client's own way there and back is left out: it is the same for every setting.
    """
    arrived = {(one.src, one.body.get("msg_id")): one.arrived for one in run.story.sent if one.type == kind}
    found = []
    for one in run.story.sent:
        began = arrived.get((one.dst, one.body.get("in_reply_to")))
        if one.type == f"{kind}_ok" and began is not None:
            found.append(one.sent - began)
    return found


def stale_reads(run: Run) -> int:
    """How many reads returned less than what was written before they began; the values of writes must grow."""
    written, floor, found = 0, dict[str, int](), 0
    for event in run.history:
        match event["f"], event["type"]:
            case "write", "ok":
                written = max(written, event["value"])
            case "read", "invoke":
                floor[event["process"]] = written
            case "read", "ok":
                found += (event["value"] or 0) < floor[event["process"]]
    return found


def said(answer: dict[str, Any] | None) -> str:
    """An answer in a word: the value, "written", "refused", "no answer"."""
    if answer is None:
        return "no answer"
    return {"read_ok": str(answer.get("value")), "write_ok": "written"}.get(answer["type"], "refused")


def compared(runs: Mapping[str, Run]) -> Table:
    """The requests that clients make in every run, client by client, and what each run answered."""
    rows = []
    for client in dict.fromkeys(name for run in runs.values() for name in run.played.clients):
        done = [run.played.clients[client].done for run in runs.values()]
        longest = max(done, key=lambda each: len(each))
        for number, one in enumerate(longest):
            value = one.ask.body.get("value")
            asked = f"{one.ask.body['type']} {one.ask.body['key']}" + ("" if value is None else f" = {value}")
            answers = [said(each[number].answer) if number < len(each) else "not asked" for each in done]
            rows.append([client, one.ask.node, asked, *answers])
    return table(["client", "node", "request", *runs], rows)
