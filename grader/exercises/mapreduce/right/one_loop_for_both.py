"""Two phases through one loop; results belong to the index of the piece of work; a second copy of all that is missing after silence."""
import zlib

PATIENCE = 5.0  # longer than any task that is not standing still


def bucket(key, reducers):
    return zlib.crc32(key.encode("utf-8", "surrogatepass")) % reducers


def grouped(pairs):
    groups = {}
    for key, value in pairs:
        groups.setdefault(key, []).append(value)
    return groups


def map_task(map_fn, combine_fn, item, reducers):
    pairs = map_fn(item)
    if combine_fn is not None:
        pairs = [(key, combine_fn(key, values)) for key, values in grouped(pairs).items()]
    parts = [[] for _ in range(reducers)]
    for key, value in pairs:
        parts[bucket(key, reducers)].append((key, value))
    return parts


def reduce_task(reduce_fn, pairs):
    return {key: reduce_fn(key, values) for key, values in grouped(pairs).items()}


def finish(workers, jobs):
    """What each job returned, in the order of jobs."""
    results, index_of = {}, {}

    def submit(index):
        index_of[workers.submit(*jobs[index])] = index

    for index in range(len(jobs)):
        submit(index)
    while len(results) < len(jobs):
        event = workers.wait_any(PATIENCE)
        if event is None:
            for index in range(len(jobs)):
                if index not in results:
                    submit(index)
            continue
        index = index_of.get(event.task)
        if index is None or index in results:
            continue  # of the phase before, or a copy that came second
        if event.kind == "done":
            results[index] = event.value
        elif event.kind == "died":
            submit(index)
        else:
            raise RuntimeError(event.value)
    return [results[index] for index in range(len(jobs))]


def run(map_fn, reduce_fn, inputs, workers, reducers, combine_fn=None):
    mapped = finish(workers, [(map_task, map_fn, combine_fn, item, reducers) for item in inputs])
    pairs = [[pair for parts in mapped for pair in parts[reducer]] for reducer in range(reducers)]
    output = {}
    for part in finish(workers, [(reduce_task, reduce_fn, part) for part in pairs]):
        output.update(part)
    return output
