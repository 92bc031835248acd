"""A scheduler as a class that looks every second which task is late; map tasks return a dict by reducer, by md5."""

import hashlib
from collections import defaultdict

LATE = 6.0  # seconds in which nothing came, after which what is open is started a second time


def reducer_of(key, reducers):
    return int(hashlib.md5(repr(key).encode()).hexdigest(), 16) % reducers


def map_one(map_fn, combine_fn, item, reducers):
    values_of = defaultdict(list)
    for key, value in map_fn(item):
        values_of[key].append(value)
    by_reducer = defaultdict(list)
    for key, values in values_of.items():
        if combine_fn is not None:
            values = [combine_fn(key, values)]
        by_reducer[reducer_of(key, reducers)].append((key, values))
    return dict(by_reducer)


def reduce_one(reduce_fn, combine_fn, chunks):
    values_of = defaultdict(list)
    for chunk in chunks:
        for key, values in chunk:
            values_of[key].extend(values)
    if combine_fn is not None:
        values_of = {key: [combine_fn(key, values)] for key, values in values_of.items()}
    return [(key, reduce_fn(key, values)) for key, values in values_of.items()]


class Scheduler:
    """Runs named tasks until each has a result. Tasks of an earlier phase may still report."""

    def __init__(self, workers):
        self.workers = workers
        self.name_of = {}
        self.results = {}

    def start(self, name, fn, args):
        self.name_of[self.workers.submit(fn, *args)] = name

    def phase(self, work):
        """`work`: (fn, args) by name."""
        for name, (fn, args) in work.items():
            self.start(name, fn, args)
        quiet = 0.0
        while not work.keys() <= self.results.keys():
            event = self.workers.wait_any(1.0)
            if event is None:
                quiet += 1.0
                if quiet >= LATE:
                    quiet = 0.0
                    for name in work.keys() - self.results.keys():
                        self.start(name, *work[name])
                continue
            quiet = 0.0
            name = self.name_of[event.task]
            if event.kind == "failed":
                raise RuntimeError(event.value)
            if event.kind == "done":
                if name not in self.results:
                    self.results[name] = event.value
            elif name in work and name not in self.results:
                self.start(name, *work[name])
        return {name: self.results[name] for name in work}


def run(map_fn, reduce_fn, inputs, workers, reducers, combine_fn=None):
    scheduler = Scheduler(workers)
    maps = {("map", n): (map_one, (map_fn, combine_fn, item, reducers)) for n, item in enumerate(inputs)}
    outputs = scheduler.phase(maps)
    reduces = {}
    for r in range(reducers):
        chunks = [output[r] for output in outputs.values() if r in output]
        if chunks:
            reduces["reduce", r] = reduce_one, (reduce_fn, combine_fn, chunks)
    return dict(pair for pairs in scheduler.phase(reduces).values() for pair in pairs)
