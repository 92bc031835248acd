"""Dataclasses, one key on disk for each entry, a pre-vote round, empty heartbeats apart from entries sent one by one."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from enum import Enum
from typing import Any

from grader.nodes import Node


class Role(str, Enum):
    FOLLOWER = "follower"
    CANDIDATE = "candidate"
    LEADER = "leader"


@dataclass(frozen=True)
class Entry:
    term: int
    op: dict[str, Any]


@dataclass
class Progress:
    next: int
    match: int = 0
    heard: float = 0.0


@dataclass
class Log:
    disk: Any
    entries: list[Entry] = field(default_factory=list)

    @classmethod
    def load(cls, disk: Any) -> Log:
        log = cls(disk)
        while (told := disk.get(f"entry {len(log.entries) + 1}")) is not None:
            log.entries.append(Entry(**told))
        return log

    def term(self, index: int) -> int:
        return self.entries[index - 1].term if index else 0

    @property
    def last(self) -> int:
        return len(self.entries)

    def cut(self, index: int) -> None:
        """Remove the entries from `index` on, the last first: a crash in between leaves no gap."""
        while self.last >= index:
            del self.disk[f"entry {self.last}"]
            self.entries.pop()

    def append(self, entry: Entry) -> None:
        self.disk[f"entry {self.last + 1}"] = asdict(entry)
        self.entries.append(entry)


class RaftNode(Node):
    def on_start(self) -> None:
        self.current_term, self.voted = self.disk.get("vote", (0, None))
        self.entries = Log.load(self.disk)
        self.state: dict[Any, Any] = {}
        self.commit_index = self.applied = 0
        self.pending: dict[tuple[int, int], dict[str, Any]] = {}
        self.progress: dict[str, Progress] = {}
        self.heard = -1e9
        self.become(Role.FOLLOWER)

    def become(self, role: Role) -> None:
        self._role = role
        self.role = role.value
        self.supporters = {self.id}
        if role is Role.LEADER:
            self.cancel_timer("election")
        else:
            self.cancel_timer("beat")
            self.set_timer("election", self.random.uniform(0.3, 0.6))

    def enter(self, term: int, vote: str | None = None) -> None:
        self.disk["vote"] = (term, vote)
        self.current_term, self.voted = term, vote

    def on_timer(self, name: str) -> None:
        if name == "election":
            self.become(Role.FOLLOWER)
            self.trying = self.current_term + 1
            self.canvass(pre=True)
        elif self._role is Role.LEADER:
            reached = 1 + sum(p.heard > self.now() - 0.6 for p in self.progress.values())
            if 2 * reached <= len(self.peers) + 1:
                return self.become(Role.FOLLOWER)
            self.set_timer("beat", 0.05)
            for peer, p in self.progress.items():
                self.tell(peer, p, ())

    def canvass(self, pre: bool) -> None:
        for peer in self.peers:
            self.send(peer, {"type": "request_vote", "term": self.current_term, "next": self.trying, "pre": pre,
                             "log": (self.entries.term(self.entries.last), self.entries.last)})

    def on_message(self, src: str, body: dict[str, Any]) -> None:
        kind = body["type"]
        if kind in ("read", "write", "cas"):
            return self.submit(body)
        if body["term"] > self.current_term:
            self.enter(body["term"])
            self.become(Role.FOLLOWER)
        match kind:
            case "request_vote":
                self.asked_for_vote(src, body)
            case "request_vote_res":
                self.vote(src, body)
            case "append_entries":
                self.append(src, body)
            case "append_entries_res":
                self.acknowledged(src, body)

    def asked_for_vote(self, src: str, body: dict[str, Any]) -> None:
        fresh = tuple(body["log"]) >= (self.entries.term(self.entries.last), self.entries.last)
        if body["pre"]:
            yes = fresh and body["next"] > self.current_term and self.now() - self.heard > 0.25 and self._role is not Role.LEADER
        else:
            yes = fresh and body["term"] == self.current_term and self.voted in (None, src)
            if yes:
                self.enter(self.current_term, src)
                self.become(Role.FOLLOWER)
        self.send(src, {"type": "request_vote_res", "term": self.current_term, "next": body["next"], "pre": body["pre"], "yes": yes})

    def vote(self, src: str, body: dict[str, Any]) -> None:
        if not body["yes"] or self._role is Role.LEADER or body["next"] != getattr(self, "trying", None):
            return
        if body["pre"]:
            if self._role is not Role.FOLLOWER or self.current_term + 1 != self.trying:
                return
        elif self._role is not Role.CANDIDATE or body["term"] != self.current_term:
            return
        self.supporters.add(src)
        if 2 * len(self.supporters) <= len(self.peers) + 1:
            return
        if body["pre"]:
            self.enter(self.trying, self.id)
            self.become(Role.CANDIDATE)
            self.canvass(pre=False)
        else:
            self.become(Role.LEADER)
            self.progress = {peer: Progress(self.entries.last + 1, heard=self.now()) for peer in self.peers}
            self.on_timer("beat")

    def tell(self, peer: str, p: Progress, entries: tuple[Entry, ...]) -> None:
        self.send(peer, {"type": "append_entries", "term": self.current_term, "prev": p.next - 1,
                         "prev_term": self.entries.term(p.next - 1), "entries": [asdict(e) for e in entries],
                         "commit": self.commit_index})

    def push(self, peer: str) -> None:
        p = self.progress[peer]
        if p.next <= self.entries.last:
            self.tell(peer, p, (self.entries.entries[p.next - 1],))

    def append(self, src: str, body: dict[str, Any]) -> None:
        if body["term"] < self.current_term:
            return self.send(src, {"type": "append_entries_res", "term": self.current_term, "match": None, "prev": None})
        if self._role is not Role.FOLLOWER:
            self.become(Role.FOLLOWER)
        self.heard = self.now()
        self.set_timer("election", self.random.uniform(0.3, 0.6))
        index, match = body["prev"], None
        if index <= self.entries.last and self.entries.term(index) == body["prev_term"]:
            for told in body["entries"]:
                index += 1
                if index <= self.entries.last and self.entries.term(index) != told["term"]:
                    self.entries.cut(index)
                if index > self.entries.last:
                    self.entries.append(Entry(**told))
            match = index
            self.apply(min(index, body["commit"]))
        self.send(src, {"type": "append_entries_res", "term": self.current_term, "match": match, "prev": body["prev"]})

    def acknowledged(self, src: str, body: dict[str, Any]) -> None:
        if self._role is not Role.LEADER or body["term"] != self.current_term:
            return
        p = self.progress[src]
        p.heard = self.now()
        if body["match"] is None:
            if body["prev"] == p.next - 1 and p.next > p.match + 1:
                p.next = p.next - 1
                self.tell(src, p, ())
            return
        if body["match"] >= p.next or p.match < body["match"]:
            p.match = max(p.match, body["match"])
            p.next = max(p.next, p.match + 1)
        for index in range(self.entries.last, self.commit_index, -1):
            held = 1 + sum(q.match >= index for q in self.progress.values())
            if self.entries.term(index) == self.current_term and 2 * held > len(self.peers) + 1:
                self.apply(index)
                break
        self.push(src)

    def submit(self, body: dict[str, Any]) -> None:
        if self._role is not Role.LEADER:
            return self.reply(body, {"type": "error", "code": 11, "text": "ask the leader"})
        self.entries.append(Entry(self.current_term, {k: v for k, v in body.items() if k != "msg_id"}))
        self.pending[self.entries.last, self.current_term] = body
        for peer in self.peers:
            self.push(peer)

    def apply(self, upto: int) -> None:
        self.commit_index = max(self.commit_index, upto)
        while self.applied < self.commit_index:
            self.applied += 1
            entry = self.entries.entries[self.applied - 1]
            answer = self.run(**entry.op)
            request = self.pending.pop((self.applied, entry.term), None)
            if request is not None:
                self.reply(request, answer)

    def run(self, type: str, key: Any, value: Any = None, to: Any = None, **rest: Any) -> dict[str, Any]:
        if type == "write":
            self.state[key] = value
        elif key not in self.state:
            return {"type": "error", "code": 20, "text": "no such key"}
        elif type == "read":
            return {"type": "read_ok", "value": self.state[key]}
        elif self.state[key] == rest["from"]:
            self.state[key] = to
        else:
            return {"type": "error", "code": 22, "text": "another value"}
        return {"type": f"{type}_ok"}
