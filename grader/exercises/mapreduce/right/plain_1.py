import zlib


def partition(key, reducers):
    return zlib.crc32(repr(key).encode()) % reducers


def grouped(pairs):
    groups = {}
    for key, value in pairs:
        groups.setdefault(key, []).append(value)
    return groups


def map_task(map_fn, combine_fn, item, reducers):
    pairs = list(map_fn(item))
    if combine_fn is not None:
        pairs = [(key, combine_fn(key, values)) for key, values in grouped(pairs).items()]
    parts = [[] for _ in range(reducers)]
    for key, value in pairs:
        parts[partition(key, reducers)].append((key, value))
    return parts


def reduce_task(reduce_fn, pairs):
    return {key: reduce_fn(key, values) for key, values in grouped(pairs).items()}


def all_done(workers, fn, calls, patience=10.0):
    results, number = {}, {}
    for index, call in enumerate(calls):
        number[workers.submit(fn, *call)] = index
    while len(results) < len(calls):
        event = workers.wait_any(patience)
        if event is None:
            again = [index for index in range(len(calls)) if index not in results]
        elif event.kind == "died":
            again = [number[event.task]]
        elif event.kind == "failed":
            raise RuntimeError(event.value)
        else:
            results.setdefault(number[event.task], event.value)
            continue
        for index in again:
            if index not in results:
                number[workers.submit(fn, *calls[index])] = index
    return [results[index] for index in range(len(calls))]


def run(map_fn, reduce_fn, inputs, workers, reducers, combine_fn=None):
    mapped = all_done(workers, map_task, [(map_fn, combine_fn, item, reducers) for item in inputs])
    shuffled = [[pair for parts in mapped for pair in parts[reducer]] for reducer in range(reducers)]
    result = {}
    for part in all_done(workers, reduce_task, [(reduce_fn, pairs) for pairs in shuffled]):
        result.update(part)
    return result
