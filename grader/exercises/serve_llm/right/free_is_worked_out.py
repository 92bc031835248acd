"""Nothing is counted: which blocks are free is worked out from all tables. The state of a request is immutable, and
prompts are compared with those before."""

from typing import Any, NamedTuple

from grader.serving import Chunk


class S(NamedTuple):
    id: Any
    prompt: tuple
    out: tuple
    cap: int
    kv: int
    table: tuple     # () while it waits

    @property
    def all(self):
        return self.prompt + self.out


def blocks_for(n, size):
    return (n + size - 1) // size


class Engine:
    def __init__(self, model, blocks, block_size, max_tokens_per_step):
        self.model, self.n, self.size, self.budget = model, blocks, block_size, max_tokens_per_step
        self.state = ()

    def submit(self, request_id, prompt, max_new_tokens):
        self.state += (S(request_id, tuple(prompt), (), max_new_tokens, 0, ()),)

    def cancel(self, request_id):
        self.state = tuple(s for s in self.state if s.id != request_id)

    def step(self):
        st = list(self.state)

        def free():
            return [b for b in range(self.n) if not any(b in s.table for s in st)]

        # blocks for those that decode
        i = 0
        while i < len(st):
            s = st[i]
            if s.table and s.out and s.kv + 1 == len(s.all) and s.kv == len(s.table) * self.size:
                f = free()
                if f:
                    st[i] = s._replace(table=s.table + (f[-1],))
                    i += 1
                else:
                    v = max(j for j in range(len(st)) if st[j].table)
                    st[v] = st[v]._replace(table=(), kv=0)
                    # if it was s itself, the next round passes over it
            else:
                i += 1
        # what is computed
        n = [0] * len(st)
        for i, s in enumerate(st):
            if s.table and s.out and s.kv + 1 == len(s.all) and sum(n) < self.budget:
                n[i] = 1
        for i, s in enumerate(st):
            rest = self.budget - sum(n)
            if rest == 0:
                break
            if n[i]:
                continue
            if not s.table:
                common = ()
                for o in st[:i]:
                    k = 0
                    while ((k + 1) * self.size <= min(o.kv, len(o.prompt), len(s.prompt) - 1)
                           and o.prompt[: (k + 1) * self.size] == s.prompt[: (k + 1) * self.size]):
                        k += 1
                    if k > len(common):
                        common = o.table[:k]
                f = free()
                need = blocks_for(len(s.all), self.size) - len(common)
                if need > len(f):
                    break
                s = st[i] = s._replace(table=common + tuple(f[:need]), kv=len(common) * self.size)
            n[i] = min(rest, len(s.all) - s.kv)
        go = [i for i in range(len(st)) if n[i]]
        if not go:
            self.state = tuple(st)
            return {}
        logits = self.model.forward(
            [Chunk(list(st[i].all[st[i].kv:st[i].kv + n[i]]), st[i].kv, list(st[i].table)) for i in go])
        new, gone = {}, set()
        for row, i in zip(logits.tolist(), go):
            s = st[i]
            kv = s.kv + n[i]
            if kv == len(s.all):
                t = row.index(max(row))
                s = s._replace(out=s.out + (t,))
                new[s.id] = [t]
                if t == self.model.eos or len(s.out) == s.cap:
                    gone.add(i)
            st[i] = s._replace(kv=kv)
        self.state = tuple(s for i, s in enumerate(st) if i not in gone)
        return new
