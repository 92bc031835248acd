"""Reachability by bitsets: a transaction's successors are the bits of one integer, and components are intersections."""

from itertools import pairwise


def find_anomaly(history):
    out = {}
    failed, author, last = {}, {}, {}
    for txn in history:
        for op, key, value in txn["ops"]:
            if op == "append":
                (failed if txn["type"] == "fail" else author)[key, value] = txn["index"]
                last[txn["index"], key] = value
    reads = [
        (txn["index"], key, value or [])
        for txn in history
        if txn["type"] == "ok"
        for op, key, value in txn["ops"]
        if op == "r"
    ]
    lists = {}
    for number, (who, key, values) in enumerate(reads):
        bad = [failed[key, v] for v in values if (key, v) in failed]
        if bad:
            out["G1a"] = [who, bad[0]]
        if values and (key, values[-1]) in author:
            other = author[key, values[-1]]
            if other != who and last[other, key] != values[-1]:
                out["G1b"] = [who, other]
        reads[number] = who, key, [v for v in values if (key, v) not in failed]
        lists.setdefault(key, []).append(reads[number][2])

    edges = {"ww": set(), "wr": set(), "rw": set()}
    orders = {}
    for key, many in lists.items():
        longest = sorted(many, key=len)[-1]
        if len(longest) == len(set(longest)) and all(longest[: len(one)] == one for one in many):
            orders[key] = longest
            edges["ww"] |= {(author[key, a], author[key, b]) for a, b in pairwise(longest)}
    for who, key, values in reads:
        if key not in orders or (values and author[key, values[-1]] == who):
            continue
        if values:
            edges["wr"].add((author[key, values[-1]], who))
        rest = orders[key][len(values) :]
        if rest:
            edges["rw"].add((who, author[key, rest[0]]))
    edges = {kind: {(a, b) for a, b in pairs if a != b} for kind, pairs in edges.items()}

    everything = edges["ww"] | edges["wr"] | edges["rw"]
    for nodes in strong(everything):
        inside = {kind: {(a, b) for a, b in pairs if a in nodes and b in nodes} for kind, pairs in edges.items()}
        tries = {
            "G0": loop(inside["ww"], inside["ww"]),
            "G1c": loop(inside["wr"], inside["ww"] | inside["wr"]),
            "G-single": loop(inside["rw"], inside["ww"] | inside["wr"]),
        }
        if set(tries.values()) == {None}:
            tries["G2-item"] = loop(inside["rw"], inside["ww"] | inside["wr"] | inside["rw"])
        for name, found in tries.items():
            if found:
                out.setdefault(name, list(found))
    return list(out.items())


def strong(pairs):
    """Components of two or more nodes: a node's is what it reaches and what reaches it."""
    after, before = neighbors(pairs), neighbors({(b, a) for a, b in pairs})
    left = set(after) & set(before)
    while True:  # nodes without a way in or out are in no cycle
        gone = {n for n in left if not (left & after.get(n, set())) or not (left & before.get(n, set()))}
        if not gone:
            break
        left -= gone
    while left:
        start = next(iter(left))
        both = flood(start, after, left) & flood(start, before, left)
        if len(both) > 1:
            yield both
        left -= both


def neighbors(pairs):
    found = {}
    for a, b in pairs:
        found.setdefault(a, set()).add(b)
    return found


def flood(start, after, allowed):
    seen, edge = {start}, {start}
    while edge:
        edge = set().union(*(after.get(n, set()) & allowed for n in edge)) - seen
        seen |= edge
    return seen


def loop(first, others):
    """A cycle of one edge of `first` and edges of `others`, as a tuple; by the closure of `others` as bitsets."""
    names = sorted({n for pair in first | others for n in pair})
    number = {n: i for i, n in enumerate(names)}
    direct = [0] * len(names)
    for a, b in others:
        direct[number[a]] |= 1 << number[b]
    for a, b in first:
        reached, levels = 1 << number[b], [1 << number[b]]
        goal = 1 << number[a]
        while levels[-1] and not reached & goal:
            following = 0
            for i in bits(levels[-1]):
                following |= direct[i]
            following &= ~reached
            reached |= following
            levels.append(following)
        if reached & goal:
            way = [number[a]]
            for level in levels[-2::-1]:
                way.append(next(i for i in bits(level) if direct[i] >> way[-1] & 1))
            return tuple(names[i] for i in reversed(way))
    return None


def bits(mask):
    while mask:
        low = mask & -mask
        yield low.bit_length() - 1
        mask ^= low
