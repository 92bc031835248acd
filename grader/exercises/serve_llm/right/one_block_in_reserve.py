"""Admits a request only if, beside its own blocks, one is left for each that runs. Sorts by number of submission in each
step, and works the whole step out before anything is changed."""

import itertools

import numpy as np

from grader.serving import Chunk


class Engine:
    def __init__(self, model, blocks, block_size, max_tokens_per_step):
        self.model, self.blocks, self.size, self.cap = model, blocks, block_size, max_tokens_per_step
        self.numbers = itertools.count()
        self.all = {}  # id: a dict of what is known about it
        self.refs = np.zeros(blocks, int)
        self.hashes = {}  # hash of a whole prefix: block

    def submit(self, request_id, prompt, max_new_tokens):
        self.all[request_id] = dict(id=request_id, no=next(self.numbers), x=[*prompt], n=len(prompt), more=max_new_tokens, at=0, bt=None)

    def cancel(self, request_id):
        r = self.all.pop(request_id, None)
        if r is not None and r["bt"] is not None:
            self.free(r)

    def free(self, r):
        for b in r["bt"]:
            self.refs[b] -= 1
        gone = {b for b in r["bt"] if self.refs[b] == 0}
        self.hashes = {h: b for h, b in self.hashes.items() if b not in gone}
        r["bt"], r["at"] = None, 0

    def alloc(self, r, count):
        found = np.flatnonzero(self.refs == 0)[:count].tolist()
        if len(found) < count:
            return False
        self.refs[found] += 1
        r["bt"] = (r["bt"] or []) + found
        return True

    def note(self, r):
        h = ()
        for i in range(min(r["at"], r["n"]) // self.size):
            h = hash((h, *r["x"][i * self.size : (i + 1) * self.size]))
            self.hashes.setdefault(h, r["bt"][i])

    def step(self):
        line = sorted(self.all.values(), key=lambda r: r["no"])
        run = [r for r in line if r["bt"] is not None]
        for r in run:  # what is computed by now: of equal blocks the first may be gone
            self.note(r)
        todo = []
        for r in [r for r in run if r["at"] == len(r["x"]) - 1]:
            if r["bt"] is None:
                continue
            while r["bt"] is not None and r["at"] >= len(r["bt"]) * self.size and not self.alloc(r, 1):
                self.free(run.pop())
            if r["bt"] is not None:
                todo.append((r, 1))
        cap = self.cap - len(todo)
        for r in line:
            if any(r is other for other, _ in todo):
                continue
            if cap < 1:
                break
            if r["bt"] is None:
                shared, h = [], ()
                for i in range((len(r["x"]) - 1) // self.size):
                    h = hash((h, *r["x"][i * self.size : (i + 1) * self.size]))
                    if h not in self.hashes:
                        break
                    shared.append(self.hashes[h])
                need = -(-len(r["x"]) // self.size) - len(shared)
                spare = sum(o["bt"] is not None for o in line)
                if need + (spare if spare else 0) > (self.refs == 0).sum():
                    break
                r["bt"] = shared
                self.refs[shared] += 1
                r["at"] = len(shared) * self.size
                self.alloc(r, need)
            n = min(cap, len(r["x"]) - r["at"])
            todo.append((r, n))
            cap -= n
        if not todo:
            return {}
        out = self.model.forward([Chunk(r["x"][r["at"] : r["at"] + n], r["at"], r["bt"]) for r, n in todo]).numpy()
        back = {}
        for (r, n), row in zip(todo, out):
            r["at"] += n
            if r["at"] == len(r["x"]):
                t = int(np.argmax(row))
                back[r["id"]] = [t]
                r["x"].append(t)
                r["more"] -= 1
                if t == self.model.eos or r["more"] == 0:
                    self.free(self.all.pop(r["id"]))
        return back
