"""Peels off whatever is in no cycle, then tries each edge with a depth-first search. Also names every G2-item it meets."""

from collections import Counter, defaultdict

KINDS = WW, WR, RW = 1, 2, 4


def find_anomaly(history):
    ok = [txn for txn in history if txn["type"] == "ok"]
    dead = {(k, v): t["index"] for t in history if t["type"] == "fail" for f, k, v in t["ops"] if f == "append"}
    alive, final = {}, {}
    for t in history:
        if t["type"] != "fail":
            for f, k, v in t["ops"]:
                if f == "append":
                    alive[k, v] = t["index"]
                    final[k, t["index"]] = v
    answers = []
    for t in ok:
        hits = [dead[k, v] for f, k, vs in t["ops"] if f == "r" and vs for v in vs if (k, v) in dead]
        if hits:
            answers.append(("G1a", [hits[0], t["index"]]))
            break
    for t in ok:
        tails = [(k, vs[-1]) for f, k, vs in t["ops"] if f == "r" and vs and (k, vs[-1]) in alive]
        hits = [alive[k, v] for k, v in tails if alive[k, v] != t["index"] and final[k, alive[k, v]] != v]
        if hits:
            answers.append(("G1b", [hits[0], t["index"]]))
            break

    masks = graph_of(ok, alive)
    names = ("G0", WW, WW), ("G1c", WR, WW | WR), ("G-single", RW, WW | WR)
    whole = list(groups(masks, WW | WR | RW))
    for name, first, rest in names:
        for group in whole:
            cycle = closing(masks, group, first, rest)
            if cycle:
                answers.append((name, cycle))
                break
    for group in whole:
        if not any(closing(masks, group, first, rest) for _, first, rest in names):
            answers.append(("G2-item", closing(masks, group, RW, WW | WR | RW)))
            break
    else:
        for group in whole:
            cycle = closing(masks, group, RW, RW)
            if cycle:
                answers.append(("G2-item", cycle))
                break
    return answers


def graph_of(ok, alive):
    """For each pair of transactions a mask of the kinds of edge between them."""
    reads = defaultdict(list)
    for t in ok:
        for f, k, vs in t["ops"]:
            if f == "r":
                reads[k].append((t["index"], tuple(v for v in vs or () if (k, v) in alive)))
    masks = defaultdict(int)
    for k, seen in reads.items():
        order = max((vs for _, vs in seen), key=len)
        if max(Counter(order).values(), default=1) > 1 or any(order[: len(vs)] != vs for _, vs in seen):
            continue
        chain = [alive[k, v] for v in order]
        for a, b in zip(chain, chain[1:]):  # noqa: B905, RUF007
            masks[a, b] |= WW
        for reader, vs in seen:
            n = len(vs)
            if n and chain[n - 1] == reader:
                continue
            if n:
                masks[chain[n - 1], reader] |= WR
            if n < len(chain):
                masks[reader, chain[n]] |= RW
    return {(a, b): m for (a, b), m in masks.items() if a != b}


def groups(masks, kinds):
    """Forward and backward from one transaction, again and again, of those that can be in a cycle."""
    ahead, back = defaultdict(set), defaultdict(set)
    for (a, b), m in masks.items():
        if m & kinds:
            ahead[a].add(b)
            back[b].add(a)
    left = set(ahead) & set(back)
    outs = {n: len(ahead[n] & left) for n in left}
    ins = {n: len(back[n] & left) for n in left}
    bare = [n for n in left if not outs[n] or not ins[n]]
    while bare:
        n = bare.pop()
        if n not in left:
            continue
        left.discard(n)
        for p in back[n] & left:
            outs[p] -= 1
            if not outs[p]:
                bare.append(p)
        for s in ahead[n] & left:
            ins[s] -= 1
            if not ins[s]:
                bare.append(s)
    while left:
        n = left.pop()
        left.add(n)
        group = spread(n, ahead, left) & spread(n, back, left)
        left -= group
        if len(group) > 1:
            yield group


def spread(start, step, within):
    seen, todo = {start}, [start]
    while todo:
        fresh = (step[todo.pop()] & within) - seen
        seen |= fresh
        todo.extend(fresh)
    return seen


def closing(masks, group, first, rest):
    """A simple cycle with one edge of `first` and the others of `rest`, by depth-first search; None if there is none."""
    step = defaultdict(list)
    for a in group:
        for b in group:
            if masks.get((a, b), 0) & rest:
                step[a].append(b)
    dead_ends = {}
    for a in group:
        for b in group:
            if not masks.get((a, b), 0) & first:
                continue
            if b not in dead_ends:
                trail, todo = {b: None}, [b]
                while todo:
                    n = todo.pop()
                    for s in step[n]:
                        if s not in trail:
                            trail[s] = n
                            todo.append(s)
                dead_ends[b] = trail
            if a in dead_ends[b]:
                way = []
                n = a
                while n is not None:
                    way.append(n)
                    n = dead_ends[b][n]
                return way[::-1]
    return None
