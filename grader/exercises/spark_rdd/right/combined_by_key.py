"""combineByKey and aggregate with top-level helpers; PageRank by cogroup of out-links and what was received."""
import heapq

from pyspark import StorageLevel


def order(pair):
    word, count = pair
    return -count, word


def word_count(lines_rdd, top):
    if top <= 0 or not lines_rdd.getNumPartitions():
        return []
    counts = lines_rdd.flatMap(lambda line: line.split()).map(lambda word: (word, 1))
    counts = counts.combineByKey(lambda one: one, lambda a, b: a + b, lambda a, b: a + b)

    def insert(best, pair):
        best = [*best, pair]
        return heapq.nsmallest(top, best, key=order) if len(best) > 2 * top + 100 else best

    def merge(a, b):
        return heapq.nsmallest(top, [*a, *b], key=order)

    counts = counts.mapPartitions(lambda pairs: heapq.nsmallest(top, pairs, key=order))
    return sorted(counts.aggregate([], insert, merge), key=order)[:top]


def rank_of(entry):
    """(out-links, rank) of a page from its cogroup of out-links and shares."""
    outs, shares = entry
    (out,) = outs
    return out, 0.15 + 0.85 * sum(shares)


def page_rank(links_rdd, iterations):
    parts = links_rdd.getNumPartitions()
    if not parts:
        return {}
    pairs = links_rdd.flatMap(lambda link: ((link[0], (link[1],)), (link[1], ())))
    out_links = pairs.aggregateByKey(
        frozenset(), lambda known, new: known.union(new), lambda a, b: a.union(b), numPartitions=parts
    )
    out_links = out_links.persist(StorageLevel.MEMORY_AND_DISK)
    try:
        current = out_links.mapValues(lambda out: (out, 1.0))
        for _ in range(iterations):
            shares = current.values().flatMap(lambda state: ((page, state[1] / len(state[0])) for page in state[0]))
            received = shares.reduceByKey(lambda a, b: a + b, numPartitions=parts)
            current = out_links.cogroup(received, parts).mapValues(rank_of)
        return current.mapValues(lambda state: state[1]).collectAsMap()
    finally:
        out_links.unpersist()
