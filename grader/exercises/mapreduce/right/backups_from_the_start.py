"""Submits every task once for each worker from the start and takes what comes first: no clock at all."""

from zlib import adler32


def mapping(map_fn, combine_fn, item, reducers):
    groups = {}
    for key, value in map_fn(item):
        groups.setdefault(key, []).append(value)
    buckets = [{} for _ in range(reducers)]
    for key, values in groups.items():
        buckets[adler32(str(key).encode()) % reducers][key] = (
            values if combine_fn is None else [combine_fn(key, values)]
        )
    return buckets


def reducing(reduce_fn, buckets):
    keys = {key for bucket in buckets for key in bucket}
    return {key: reduce_fn(key, [value for bucket in buckets for value in bucket.get(key, ())]) for key in keys}


def first_of_each(workers, fn, calls, owner):
    """`owner`: (phase, index) of every task of the job, as copies of the phase before may still report."""
    done = {}

    def submit(index):
        owner[workers.submit(fn, *calls[index])] = fn, index

    for _ in range(len(workers)):
        for index in range(len(calls)):
            submit(index)
    while len(done) < len(calls):
        event = workers.wait_any()
        phase, index = owner[event.task]
        if phase is not fn or index in done:
            continue
        if event.kind == "done":
            done[index] = event.value
        elif event.kind == "died":
            submit(index)
        else:
            raise RuntimeError(f"{fn.__name__} {index} raised {event.value}")
    return [done[index] for index in range(len(calls))]


def run(map_fn, reduce_fn, inputs, workers, reducers, combine_fn=None):
    owner = {}
    mapped = first_of_each(workers, mapping, [(map_fn, combine_fn, item, reducers) for item in inputs], owner)
    calls = [(reduce_fn, [buckets[reducer] for buckets in mapped]) for reducer in range(reducers)]
    out = {}
    for part in first_of_each(workers, reducing, calls, owner):
        out |= part
    return out
