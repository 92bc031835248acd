"""Speculative: idle workers get second copies at once, without waiting for silence; the combiner folds value by value."""
import zlib
from collections import Counter, defaultdict


def shard_of(key, reducers):
    return zlib.adler32(f"{len(key)}:{key}".encode("utf-8", "surrogatepass")) * 2654435761 % 2**32 % reducers


def mapper(map_fn, combine_fn, reducers, item):
    out = defaultdict(list)
    if combine_fn is None:
        for key, value in map_fn(item):
            out[shard_of(key, reducers)].append((key, value))
    else:
        so_far = {}
        for key, value in map_fn(item):
            so_far[key] = combine_fn(key, [so_far[key], value]) if key in so_far else value
        for pair in so_far.items():
            out[shard_of(pair[0], reducers)].append(pair)
    return dict(out)


def reducer(reduce_fn, pieces):
    values = defaultdict(list)
    for piece in pieces:
        for key, value in piece:
            values[key].append(value)
    return {key: reduce_fn(key, values[key]) for key in values}


class Phase:
    def __init__(self, workers, fn, arguments):
        self.workers, self.fn, self.arguments = workers, fn, arguments
        self.results = {}
        self.open = {}  # task -> index, of tasks that have not ended
        self.copies = Counter()

    def submit(self, index):
        self.open[self.workers.submit(self.fn, *self.arguments[index])] = index
        self.copies[index] += 1

    def missing(self):
        return [index for index in range(len(self.arguments)) if index not in self.results]

    def speculate(self):
        """Is a worker idle? A second copy of what has only one."""
        for index in self.missing():
            if len(self.open) >= len(self.workers):
                return
            if self.copies[index] < 2:
                self.submit(index)

    def run(self):
        for index in range(len(self.arguments)):
            self.submit(index)
        while self.missing():
            event = self.workers.wait_any(5.0)
            if event is None:
                for index in self.missing():
                    self.submit(index)
                continue
            index = self.open.pop(event.task, None)
            if index is None:
                continue
            if event.kind == "failed" and index not in self.results:
                raise RuntimeError(event.value)
            if event.kind == "done":
                self.results.setdefault(index, event.value)
            elif event.kind == "died":
                self.copies[index] -= 1
                if index not in self.results:
                    self.submit(index)
            self.speculate()
        return [self.results[index] for index in range(len(self.arguments))]


def run(map_fn, reduce_fn, inputs, workers, reducers, combine_fn=None):
    maps = Phase(workers, mapper, [(map_fn, combine_fn, reducers, item) for item in inputs]).run()
    pieces = [[parts[number] for parts in maps if number in parts] for number in range(reducers)]
    answer = {}
    for part in Phase(workers, reducer, [(reduce_fn, one) for one in pieces]).run():
        answer |= part
    return answer
