"""A class with one method for each step; components by Kosaraju's two passes, cycles by breadth-first search."""

from collections import defaultdict
from dataclasses import dataclass, field
from typing import NamedTuple


class Edge(NamedTuple):
    source: int
    target: int
    kind: str


@dataclass
class Checker:
    history: list
    appended: dict = field(default_factory=dict)  # (key, value) -> transaction
    versions: dict = field(default_factory=dict)
    edges: set = field(default_factory=set)
    report: dict = field(default_factory=dict)

    def run(self):
        for txn in self.history:
            for f, key, value in txn["ops"]:
                if f == "append":
                    self.appended[key, value] = txn
        for txn, key, values in self.reads():
            self.aborted(txn, key, values)
            self.intermediate(txn, key, values)
        self.order_versions()
        self.connect()
        self.look_for_cycles()
        return [(name, witness) for name, witness in self.report.items()]

    def reads(self, cleaned=False):
        for txn in self.history:
            if txn["type"] != "ok":
                continue
            for f, key, value in txn["ops"]:
                if f == "r":
                    values = list(value) if value is not None else []
                    if cleaned:
                        values = [v for v in values if self.appended[key, v]["type"] != "fail"]
                    yield txn, key, values

    def aborted(self, txn, key, values):
        for value in values:
            writer = self.appended[key, value]
            if writer["type"] == "fail":
                self.report["G1a"] = [txn["index"], writer["index"]]

    def intermediate(self, txn, key, values):
        if not values:
            return
        writer = self.appended[key, values[-1]]
        if writer is txn or writer["type"] == "fail":
            return
        mine = [value for f, k, value in writer["ops"] if f == "append" and k == key]
        if mine[-1] != values[-1]:
            self.report["G1b"] = [writer["index"], txn["index"]]

    def order_versions(self):
        seen = defaultdict(list)
        for _, key, values in self.reads(cleaned=True):
            seen[key].append(values)
        for key, many in seen.items():
            many.sort(key=len)
            fine = all(many[i] == many[i + 1][: len(many[i])] for i in range(len(many) - 1))
            if fine and len(many[-1]) == len(set(many[-1])):
                self.versions[key] = many[-1]

    def add(self, source, target, kind):
        if source["index"] != target["index"]:
            self.edges.add(Edge(source["index"], target["index"], kind))

    def connect(self):
        for key, order in self.versions.items():
            for i in range(1, len(order)):
                self.add(self.appended[key, order[i - 1]], self.appended[key, order[i]], "ww")
        for txn, key, values in self.reads(cleaned=True):
            order = self.versions.get(key)
            if order is None:
                continue
            if values:
                writer = self.appended[key, values[-1]]
                if writer is txn:
                    continue
                self.add(writer, txn, "wr")
            if len(order) > len(values):
                self.add(txn, self.appended[key, order[len(values)]], "rw")

    def look_for_cycles(self):
        for part in strongly_connected(self.edges):
            here = [edge for edge in self.edges if edge.source in part and edge.target in part]
            dependencies = [edge for edge in here if edge.kind != "rw"]
            writes = [edge for edge in here if edge.kind == "ww"]
            found = {
                "G0": find(writes, writes),
                "G1c": find([e for e in dependencies if e.kind == "wr"], dependencies),
                "G-single": find([e for e in here if e.kind == "rw"], dependencies),
            }
            if not any(found.values()):
                found["G2-item"] = find([e for e in here if e.kind == "rw"], here)
            for name, witness in found.items():
                if witness and name not in self.report:
                    self.report[name] = witness


def strongly_connected(edges):
    forward, backward = defaultdict(list), defaultdict(list)
    for edge in edges:
        forward[edge.source].append(edge.target)
        backward[edge.target].append(edge.source)
    finished, seen = [], set()
    for root in list(forward):
        if root in seen:
            continue
        seen.add(root)
        stack = [(root, iter(forward[root]))]
        while stack:
            node, rest = stack[-1]
            following = next((n for n in rest if n not in seen), None)
            if following is None:
                finished.append(node)
                stack.pop()
            else:
                seen.add(following)
                stack.append((following, iter(forward[following])))
    taken = set()
    for root in reversed(finished):
        if root in taken:
            continue
        part, todo = set(), [root]
        taken.add(root)
        while todo:
            node = todo.pop()
            part.add(node)
            for n in backward[node]:
                if n not in taken:
                    taken.add(n)
                    todo.append(n)
        if len(part) > 1:
            yield part


def find(first, rest):
    """A cycle that starts with an edge of `first` and returns by edges of `rest`."""
    following = defaultdict(list)
    for edge in rest:
        following[edge.source].append(edge.target)
    searched = {}
    for edge in first:
        if edge.target not in searched:
            parents, row = {edge.target: edge.target}, [edge.target]
            while row:
                new = []
                for node in row:
                    for n in following[node]:
                        if n not in parents:
                            parents[n] = node
                            new.append(n)
                row = new
            searched[edge.target] = parents
        parents = searched[edge.target]
        if edge.source in parents:
            way = [edge.source]
            while way[-1] != edge.target:
                way.append(parents[way[-1]])
            return way[::-1]
    return None


def find_anomaly(history):
    return Checker(history).run()
