"""Bit masks for kinds; adjacency as dicts of dicts; Kosaraju for components; breadth-first search with parents."""

from itertools import pairwise

WW, WR, RW = 1, 2, 4


class History:
    def __init__(self, history):
        self.ok = [t for t in history if t["type"] == "ok"]
        self.wrote = {}  # (key, value): (index, type)
        self.last = {}  # (index, key): value
        for t in history:
            for f, key, value in t["ops"]:
                if f == "append":
                    self.wrote[key, value] = t["index"], t["type"]
                    self.last[t["index"], key] = value
        self.reads = [(t["index"], key, value or []) for t in self.ok for f, key, value in t["ops"] if f == "r"]
        self.failed = {pair for pair, (_, kind) in self.wrote.items() if kind == "fail"}

    def aborted(self):
        for reader, key, values in self.reads:
            for value in values:
                if (key, value) in self.failed:
                    return [reader, self.wrote[key, value][0]]
        return None

    def intermediate(self):
        for reader, key, values in self.reads:
            if values:
                writer, kind = self.wrote[key, values[-1]]
                if writer != reader and kind != "fail" and self.last[writer, key] != values[-1]:
                    return [reader, writer]
        return None

    def clean(self):
        return [(i, key, [v for v in values if (key, v) not in self.failed]) for i, key, values in self.reads]

    def graph(self):
        reads, longest, bad = self.clean(), {}, set()
        for _, key, values in reads:
            if len(values) > len(longest.setdefault(key, [])):
                longest[key] = values
        for _, key, values in reads:
            if values != longest[key][: len(values)] or len(set(longest[key])) < len(longest[key]):
                bad.add(key)
        out = {}

        def edge(a, b, kind):
            if a != b:
                out.setdefault(a, {})
                out[a][b] = out[a].get(b, 0) | kind
                out.setdefault(b, {})

        for key, order in longest.items():
            if key not in bad:
                for a, b in pairwise(order):
                    edge(self.wrote[key, a][0], self.wrote[key, b][0], WW)
        for reader, key, values in reads:
            if key in bad:
                continue
            if values:
                writer = self.wrote[key, values[-1]][0]
                if writer == reader:
                    continue
                edge(writer, reader, WR)
            if len(values) < len(longest[key]):
                edge(reader, self.wrote[key, longest[key][len(values)]][0], RW)
        return out


def limited(graph, mask):
    return {a: {b: kinds & mask for b, kinds in after.items() if kinds & mask} for a, after in graph.items()}


def components(graph):
    """Node: number of its component (Kosaraju, without recursion)."""
    back = {a: [] for a in graph}
    for a, after in graph.items():
        for b in after:
            back[b].append(a)
    done, order = set(), []
    for start in graph:
        if start in done:
            continue
        done.add(start)
        stack = [(start, iter(graph[start]))]
        while stack:
            node, rest = stack[-1]
            for b in rest:
                if b not in done:
                    done.add(b)
                    stack.append((b, iter(graph[b])))
                    break
            else:
                order.append(node)
                stack.pop()
    number = {}
    for count, start in enumerate(reversed(order)):
        if start in number:
            continue
        number[start], todo = count, [start]
        while todo:
            for b in back[todo.pop()]:
                if b not in number:
                    number[b] = count
                    todo.append(b)
    return number


def path(graph, number, start, ends):
    """The shortest way from start to one of the ends, within the component."""
    came, layer = {start: None}, [start]
    while layer:
        after = []
        for node in layer:
            if node in ends:
                way = []
                while node is not None:
                    way.append(node)
                    node = came[node]
                return way[::-1]
            for b in graph[node]:
                if b not in came and number[b] == number[node]:
                    came[b] = node
                    after.append(b)
        layer = after
    return None


def closed(graph, kind, mask):
    """A cycle of an edge of this kind and a way back by edges of the mask."""
    both, back = limited(graph, mask | kind), limited(graph, mask)
    number = components(both)
    heads = {}
    for a, after in both.items():
        for b, kinds in after.items():
            if kinds & kind and number[a] == number[b]:
                heads.setdefault(b, set()).add(a)
    for b, tails in heads.items():
        way = path(back, number, b, tails)
        if way:
            return way
    return None


def find_anomaly(history):
    it = History(history)
    found = {"G1a": it.aborted(), "G1b": it.intermediate()}
    graph = it.graph()
    found["G0"] = closed(graph, WW, WW)
    found["G1c"] = closed(graph, WR, WW | WR)
    found["G-single"] = closed(graph, RW, WW | WR)
    number = components(graph)
    groups = {}
    for node, count in number.items():
        groups.setdefault(count, set()).add(node)
    for group in groups.values():
        if len(group) > 1:
            part = {a: {b: k for b, k in graph[a].items() if b in group} for a in group}
            if not closed(part, WW | WR, WW | WR) and not closed(part, RW, WW | WR):
                found["G2-item"] = closed(part, RW, 7)
                break
    return [(name, list(way)) for name, way in found.items() if way]
