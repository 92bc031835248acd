"""Blocks of requests that are over are kept for later prefixes, and taken from the oldest on when none is free. Tables
are tuples. A dict from id to state; one scheduler object, one allocator object."""

from collections import OrderedDict
from math import ceil

import torch

from grader.serving import Chunk


class Pool:
    """Blocks with counts. Those that nobody uses are idle, in the order in which they were left; some still hold a
    prefix."""

    def __init__(self, blocks):
        self.idle = OrderedDict((block, None) for block in range(blocks))
        self.users, self.by_prefix, self.prefix_of = {}, {}, {}

    def fresh(self):
        if not self.idle:
            return None
        block, _ = self.idle.popitem(last=False)
        if block in self.prefix_of:
            del self.by_prefix[self.prefix_of.pop(block)]
        self.users[block] = 1
        return block

    def hold(self, block):
        self.idle.pop(block, None)
        self.users[block] = self.users.get(block, 0) + 1

    def leave(self, blocks):
        for block in reversed(blocks):  # the end of a prefix is of use to fewer
            self.users[block] -= 1
            if not self.users[block]:
                self.idle[block] = None

    def note(self, prefix, block):
        if prefix not in self.by_prefix and block not in self.prefix_of:
            self.by_prefix[prefix], self.prefix_of[block] = block, prefix


class Engine:
    def __init__(self, model, blocks, block_size, max_tokens_per_step):
        self.model, self.size, self.most = model, block_size, max_tokens_per_step
        self.pool = Pool(blocks)
        self.state = {}  # in order of submission
        self.running = []

    def submit(self, request_id, prompt, max_new_tokens):
        self.state[request_id] = {"tokens": tuple(prompt), "left": max_new_tokens, "table": (), "cached": 0}

    def cancel(self, request_id):
        if request_id in self.state:
            self._out(request_id)
            del self.state[request_id]

    def _out(self, name):
        mine = self.state[name]
        self.pool.leave(mine["table"])
        mine["table"], mine["cached"] = (), 0
        if name in self.running:
            self.running.remove(name)

    def _in(self, name):
        """Admit, if there are blocks for all tokens."""
        mine = self.state[name]
        tokens, table = mine["tokens"], ()
        for end in range(self.size, len(tokens), self.size):
            if tokens[:end] not in self.pool.by_prefix:
                break
            table += (self.pool.by_prefix[tokens[:end]],)
        for block in table:
            self.pool.hold(block)
        mine["cached"] = len(table) * self.size
        more = ceil(len(tokens) / self.size) - len(table)
        if more > len(self.pool.idle):
            self.pool.leave(table)
            mine["cached"] = 0
            return False
        mine["table"] = table + tuple(self.pool.fresh() for _ in range(more))
        self.running.append(name)
        return True

    def step(self):
        counts = {}
        for name in list(self.running):
            mine = self.state[name]
            if name not in self.running or len(mine["tokens"]) - mine["cached"] != 1:
                continue
            if mine["cached"] // self.size == len(mine["table"]):
                block = self.pool.fresh()
                while block is None and name in self.running:
                    self._out(self.running[-1])
                    block = self.pool.fresh() if name in self.running else None
                if block is None:
                    continue
                mine["table"] += (block,)
            counts[name] = 1
        for name in self.state:
            rest = self.most - sum(counts.values())
            if name in counts:
                continue
            if rest == 0 or (name not in self.running and not self._in(name)):
                break
            mine = self.state[name]
            counts[name] = min(rest, len(mine["tokens"]) - mine["cached"])
        if not counts:
            return {}
        chunks = []
        for name, count in counts.items():
            mine = self.state[name]
            chunks.append(Chunk(list(mine["tokens"][mine["cached"] : mine["cached"] + count]), mine["cached"], list(mine["table"])))
        best = torch.max(self.model.forward(chunks), dim=-1).indices
        answer = {}
        for (name, count), token in zip(counts.items(), best):
            mine = self.state[name]
            mine["cached"] += count
            for at in range(mine["cached"] // self.size):
                self.pool.note(mine["tokens"][: (at + 1) * self.size], mine["table"][at])
            if mine["cached"] == len(mine["tokens"]):
                answer[name] = [token.item()]
                mine["tokens"] += (token.item(),)
                mine["left"] -= 1
                if token == self.model.eos or mine["left"] == 0:
                    self._out(name)
                    del self.state[name]
            else:
                answer[name] = []
        return answer
