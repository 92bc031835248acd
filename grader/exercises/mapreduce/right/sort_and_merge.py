"""Sort and merge as in Hadoop: map tasks return sorted runs, reduce tasks merge them; blake2b partitions; a Scheduler class."""
import hashlib
import heapq
from itertools import groupby
from operator import itemgetter

KEY = itemgetter(0)


def partition(key, reducers):
    digest = hashlib.blake2b(key.encode("utf-8", "surrogatepass"), digest_size=8).digest()
    return int.from_bytes(digest, "big") % reducers


def sorted_runs(map_fn, combine_fn, item, reducers):
    pairs = sorted(map_fn(item), key=KEY)
    if combine_fn is not None:
        pairs = [(key, combine_fn(key, [value for _, value in group])) for key, group in groupby(pairs, KEY)]
    runs = [[] for _ in range(reducers)]
    for pair in pairs:
        runs[partition(pair[0], reducers)].append(pair)
    return runs


def merge_and_reduce(reduce_fn, runs):
    merged = heapq.merge(*runs, key=KEY)
    return [(key, reduce_fn(key, [value for _, value in group])) for key, group in groupby(merged, KEY)]


class Scheduler:
    """Sees to it that each piece of work is done, whatever becomes of the workers."""

    def __init__(self, workers, silence=6.0):
        self.workers, self.silence = workers, silence

    def map(self, fn, arguments):
        self.fn, self.arguments = fn, arguments
        self.piece = {}  # task -> piece of work; a new table for each phase
        self.missing = dict.fromkeys(range(len(arguments)))
        self.values = [None] * len(arguments)
        for number in range(len(arguments)):
            self.submit(number)
        while self.missing:
            event = self.workers.wait_any(self.silence)
            if event is None:
                for number in list(self.missing):
                    self.submit(number)
            elif event.task in self.piece:
                self.handle(event, self.piece.pop(event.task))
        return self.values

    def submit(self, number):
        self.piece[self.workers.submit(self.fn, *self.arguments[number])] = number

    def handle(self, event, number):
        if number not in self.missing:
            return
        if event.kind == "done":
            self.values[number] = event.value
            del self.missing[number]
        elif event.kind == "died":
            self.submit(number)
        elif event.kind == "failed":
            raise RuntimeError(f"piece {number}: {event.value}")


def run(map_fn, reduce_fn, inputs, workers, reducers, combine_fn=None):
    scheduler = Scheduler(workers)
    runs = scheduler.map(sorted_runs, [(map_fn, combine_fn, item, reducers) for item in inputs])
    work = [(reduce_fn, [one[reducer] for one in runs]) for reducer in range(reducers)]
    return dict(pair for pairs in scheduler.map(merge_and_reduce, work) for pair in pairs)
