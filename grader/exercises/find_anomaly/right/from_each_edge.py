"""Layers of functions on plain dicts: a union of components by rounds of labels, and a search from each rw edge."""

import collections
import itertools


def find_anomaly(history):
    by_index = {txn["index"]: txn for txn in history}
    author = {}
    for txn in history:
        for f, key, value in txn["ops"]:
            if f == "append":
                author[(key, value)] = txn["index"]
    reads = []
    for txn in history:
        if txn["type"] == "ok":
            reads.extend((txn["index"], key, value or []) for f, key, value in txn["ops"] if f == "r")
    witnesses = {}
    for reader, key, values in reads:
        for value in values:
            if by_index[author[key, value]]["type"] == "fail":
                witnesses["G1a"] = [reader, author[key, value]]
        if values:
            writer = by_index[author[key, values[-1]]]
            appended = [v for f, k, v in writer["ops"] if (f, k) == ("append", key)]
            if writer["type"] != "fail" and writer["index"] != reader and appended.index(values[-1]) + 1 < len(appended):
                witnesses["G1b"] = [reader, writer["index"]]
    clean = [(r, k, [v for v in vs if by_index[author[k, v]]["type"] != "fail"]) for r, k, vs in reads]
    kinds = edges(clean, author)
    successors = collections.defaultdict(dict)
    for (a, b), there in kinds.items():
        successors[a][b] = there

    label = component_labels(successors)
    pure = collections.defaultdict(lambda: True)
    for (a, b), there in kinds.items():
        if label[a] != label[b]:
            continue
        for kind, allowed, name in (("ww", {"ww"}, "G0"), ("wr", {"ww", "wr"}, "G1c"), ("rw", {"ww", "wr"}, "G-single")):
            if kind in there and (name not in witnesses or pure[label[a]]):
                path = shortest(successors, label, b, a, allowed)
                if path:
                    witnesses.setdefault(name, [a, *path[:-1]])
                    pure[label[a]] = False
    for (a, b), there in kinds.items():
        if label[a] == label[b] and pure[label[a]] and "rw" in there:
            path = shortest(successors, label, b, a, {"ww", "wr", "rw"})
            witnesses["G2-item"] = [a, *path[:-1]]
            break
    return sorted(witnesses.items())


def edges(reads, author):
    kinds = collections.defaultdict(set)
    ordered = sorted(reads, key=lambda read: (str(read[1]), len(read[2])))
    for key, group in itertools.groupby(ordered, key=lambda read: read[1]):
        of_key = list(group)
        order = of_key[-1][2]
        if len(order) != len(set(order)):
            continue
        if any(values != order[: len(values)] for _, _, values in of_key):
            continue
        owners = [author[key, value] for value in order]
        for a, b in itertools.pairwise(owners):
            kinds[a, b].add("ww")
        for reader, _, values in of_key:
            before = owners[len(values) - 1] if values else None
            if before == reader:
                continue
            if before is not None:
                kinds[before, reader].add("wr")
            for after in owners[len(values) : len(values) + 1]:
                kinds[reader, after].add("rw")
    return {pair: there for pair, there in kinds.items() if pair[0] != pair[1]}


def component_labels(successors):
    """Tarjan's algorithm, as Pearce wrote it: one number for each node, its component's in the end."""
    label, stack, index, last = {}, [], 1, 10**9
    for root in list(successors):
        if root in label:
            continue
        label[root] = index
        index += 1
        work = [(root, list(successors[root]), True, label[root])]
        while work:
            node, todo, is_root, own = work.pop()
            descend = None
            while todo:
                target = todo[-1]
                if target not in label:
                    descend = target
                    break
                todo.pop()
                if label[target] < label[node]:
                    label[node] = label[target]
                    is_root = False
            if descend is not None:
                work.append((node, todo, is_root, own))
                label[descend] = index
                index += 1
                work.append((descend, list(successors.get(descend, ())), True, label[descend]))
                continue
            if is_root:
                while stack and label[stack[-1]] >= label[node]:
                    label[stack.pop()] = last
                label[node] = last
                last += 1
            else:
                stack.append(node)
    return label


def shortest(successors, label, start, goal, allowed):
    """From start to goal along edges of these kinds, within their component; [] if there is no way."""
    previous = {start: None}
    queue = collections.deque([start])
    while queue:
        node = queue.popleft()
        if node == goal:
            path = []
            while node is not None:
                path.append(node)
                node = previous[node]
            return path[::-1]
        for target, there in successors.get(node, {}).items():
            if target not in previous and label[target] == label[goal] and there & allowed:
                previous[target] = node
                queue.append(target)
    return []
