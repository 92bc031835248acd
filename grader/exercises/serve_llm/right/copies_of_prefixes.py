"""Prefixes by the tuple of all tokens; a list of equal blocks for each prefix; whole-prompt admission."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Hashable
from dataclasses import dataclass, field

from grader.serving import Chunk


@dataclass(eq=False)
class Request:
    name: Hashable
    tokens: list[int]
    given: int  # length of the prompt
    limit: int  # new tokens at most
    cached: int = 0
    table: list[int] = field(default_factory=list)

    @property
    def decodes(self) -> bool:
        return len(self.tokens) > self.given and self.cached == len(self.tokens) - 1


class Engine:
    def __init__(self, model, blocks: int, block_size: int, max_tokens_per_step: int) -> None:
        self.model, self.size, self.most = model, block_size, max_tokens_per_step
        self.free = list(range(blocks))
        self.users = [0] * blocks
        self.key_of: dict[int, tuple[int, ...]] = {}
        self.known: dict[tuple[int, ...], list[int]] = defaultdict(list)
        self.running: list[Request] = []
        self.waiting: list[Request] = []
        self.by_name: dict[Hashable, Request] = {}

    def submit(self, request_id: Hashable, prompt: list[int], max_new_tokens: int) -> None:
        request = Request(request_id, list(prompt), len(prompt), max_new_tokens)
        self.by_name[request_id] = request
        self.waiting.append(request)

    def cancel(self, request_id: Hashable) -> None:
        request = self.by_name.pop(request_id, None)
        if request is None:
            return
        self.release(request)
        (self.running if request in self.running else self.waiting).remove(request)

    def release(self, request: Request) -> None:
        for block in request.table:
            self.users[block] -= 1
            if self.users[block] == 0:
                self.forget(block)
                self.free.append(block)
        request.table, request.cached = [], 0

    def forget(self, block: int) -> None:
        key = self.key_of.pop(block, None)
        if key is not None:
            self.known[key].remove(block)
            if not self.known[key]:
                del self.known[key]

    def take(self, request: Request) -> None:
        block = self.free.pop()
        self.users[block] = 1
        request.table.append(block)

    def preempt(self) -> Request:
        youngest = self.running.pop()
        self.release(youngest)
        self.waiting.insert(0, youngest)
        return youngest

    def admit(self, request: Request) -> bool:
        shared = []
        for end in range(self.size, len(request.tokens), self.size):
            blocks = self.known.get(tuple(request.tokens[:end]))
            if not blocks:
                break
            shared.append(blocks[0])
        missing = -(-len(request.tokens) // self.size) - len(shared)
        if missing > len(self.free):
            return False
        for block in shared:
            self.users[block] += 1
        request.table, request.cached = shared, len(shared) * self.size
        for _ in range(missing):
            self.take(request)
        return True

    def note(self, request: Request) -> None:
        """Others may share the whole blocks that are computed."""
        for number in range(request.cached // self.size):
            block = request.table[number]
            if block not in self.key_of:
                key = tuple(request.tokens[: (number + 1) * self.size])
                self.key_of[block] = key
                self.known[key].append(block)

    def step(self) -> dict[Hashable, list[int]]:
        plan: list[tuple[Request, int]] = []
        left = self.most
        for request in list(self.running):
            if not request.decodes or left == 0 or request not in self.running:
                continue
            if request.cached // self.size == len(request.table):
                while not self.free:
                    if self.preempt() is request:
                        break
                else:
                    self.take(request)
            if request.table:
                plan.append((request, 1))
                left -= 1
        planned = {id(request) for request, _ in plan}
        for request in self.running:
            if left and id(request) not in planned and not request.decodes:
                amount = min(left, len(request.tokens) - request.cached)
                plan.append((request, amount))
                left -= amount
        while left and self.waiting and self.admit(self.waiting[0]):
            request = self.waiting.pop(0)
            self.running.append(request)
            amount = min(left, len(request.tokens) - request.cached)
            plan.append((request, amount))
            left -= amount
        if not plan:
            return {}

        chunks = [Chunk(r.tokens[r.cached : r.cached + n], r.cached, list(r.table)) for r, n in plan]
        logits = self.model.forward(chunks)
        answer: dict[Hashable, list[int]] = {}
        for (request, amount), row in zip(plan, logits):
            request.cached += amount
            self.note(request)
            if request.cached < len(request.tokens):
                continue
            token = int(row.argmax())
            request.tokens.append(token)
            answer[request.name] = [token]
            if token == self.model.eos or len(request.tokens) - request.given == request.limit:
                self.running.remove(request)
                self.release(request)
                del self.by_name[request.name]
        return answer
