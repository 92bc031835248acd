"""Networkx-free but class-based: a Graph object with bit-mask edge kinds, Kosaraju components, integer node numbers."""

from collections import deque

WW, WR, RW = 1, 2, 4


class Graph:
    def __init__(self, nodes):
        self.nodes = list(nodes)
        self.next = {node: {} for node in self.nodes}

    def add(self, a, b, kind):
        if a != b:
            self.next[a][b] = self.next[a].get(b, 0) | kind

    def components(self, mask):
        seen, order = set(), []
        for root in self.nodes:
            if root in seen:
                continue
            seen.add(root)
            stack = [(root, iter(self.next[root].items()))]
            while stack:
                node, edges = stack[-1]
                for target, kinds in edges:
                    if kinds & mask and target not in seen:
                        seen.add(target)
                        stack.append((target, iter(self.next[target].items())))
                        break
                else:
                    order.append(node)
                    stack.pop()
        back = {node: [] for node in self.nodes}
        for a, edges in self.next.items():
            for b, kinds in edges.items():
                if kinds & mask:
                    back[b].append(a)
        of = {}
        for root in reversed(order):
            if root not in of:
                of[root] = root
                todo = [root]
                while todo:
                    for before in back[todo.pop()]:
                        if before not in of:
                            of[before] = root
                            todo.append(before)
        return of

    def paths(self, start, mask, of):
        """Predecessors of everything that `start` reaches by edges of the mask inside its component of `of`."""
        came = {start: None}
        todo = deque([start])
        while todo:
            node = todo.popleft()
            for target, kinds in self.next[node].items():
                if kinds & mask and target not in came and of[target] == of[start]:
                    came[target] = node
                    todo.append(target)
        return came

    @staticmethod
    def trace(came, end):
        path = []
        while end is not None:
            path.append(end)
            end = came[end]
        return path[::-1]

    def cycle(self, first, rest, of):
        """A cycle of one edge of kind `first` and then edges of `rest`, all inside one component of `of`."""
        sources = {}
        for a, edges in self.next.items():
            for b, kinds in edges.items():
                if kinds & first and of[a] == of[b]:
                    sources.setdefault(b, []).append(a)
        for b, starts in sources.items():
            came = self.paths(b, rest, of)
            for a in starts:
                if a in came:
                    return self.trace(came, a)
        return None


def find_anomaly(history):
    found = {}
    writer, last_of, failed = {}, {}, set()
    for txn in history:
        for op in txn["ops"]:
            if op[0] == "append":
                writer[op[1], op[2]] = txn["index"]
                last_of[txn["index"], op[1]] = op[2]
        if txn["type"] == "fail":
            failed.add(txn["index"])
    reads = [
        (txn["index"], op[1], op[2] or [])
        for txn in history
        if txn["type"] == "ok"
        for op in txn["ops"]
        if op[0] == "r"
    ]
    for reader, key, values in reads:
        for value in values:
            if writer[key, value] in failed:
                found["G1a"] = [writer[key, value], reader]
        if values:
            author = writer[key, values[-1]]
            if author != reader and author not in failed and last_of[author, key] != values[-1]:
                found["G1b"] = [author, reader]

    cleaned = {}
    for reader, key, values in reads:
        cleaned.setdefault(key, []).append((reader, [v for v in values if writer[key, v] not in failed]))
    graph = Graph(txn["index"] for txn in history if txn["type"] != "fail")
    for key, views in cleaned.items():
        order = max((values for _, values in views), key=len)
        if len(set(order)) < len(order) or any(values != order[: len(values)] for _, values in views):
            continue
        authors = [writer[key, value] for value in order]
        for a, b in zip(authors, authors[1:]):
            graph.add(a, b, WW)
        for reader, values in views:
            n = len(values)
            if n and authors[n - 1] == reader:
                continue
            if n:
                graph.add(authors[n - 1], reader, WR)
            if n < len(authors):
                graph.add(reader, authors[n], RW)

    g0 = graph.cycle(WW, WW, graph.components(WW))
    if g0:
        found["G0"] = g0
    g1c = graph.cycle(WR, WW | WR, graph.components(WW | WR))
    if g1c:
        found["G1c"] = g1c
    whole = graph.components(WW | WR | RW)
    single = graph.cycle(RW, WW | WR, whole)
    if single:
        found["G-single"] = single
    item = two_or_more(graph, whole)
    if item:
        found["G2-item"] = item
    return list(found.items())


def two_or_more(graph, whole):
    """A cycle in a component that has none with fewer than two rw edges."""
    parts = {}
    for node, root in whole.items():
        parts.setdefault(root, []).append(node)
    weak = graph.components(WW | WR)
    for members in parts.values():
        if len(members) < 2:
            continue
        inside = set(members)
        size = {}
        for node in members:
            size[weak[node]] = size.get(weak[node], 0) + 1
        if any(count > 1 for count in size.values()):
            continue
        small = Graph(members)
        for node in members:
            small.next[node] = {b: kinds for b, kinds in graph.next[node].items() if b in inside}
        of = dict.fromkeys(members, members[0])
        if small.cycle(RW, WW | WR, of) is None:
            return small.cycle(RW, WW | WR | RW, of)
    return None
