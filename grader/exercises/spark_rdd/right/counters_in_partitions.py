"""Counters in mapPartitions; the top is chosen in an executor; PageRank with left outer joins, so that no page sends itself zeros."""
import heapq
from collections import Counter


def word_count(lines_rdd, top):
    if top < 1 or lines_rdd.getNumPartitions() == 0:
        return []

    def count(lines):
        counter = Counter()
        for line in lines:
            counter.update(line.split())
        return counter.items()

    def best(pairs):
        return heapq.nsmallest(top, pairs, key=lambda pair: (-pair[1], pair[0]))

    counts = lines_rdd.mapPartitions(count).reduceByKey(lambda a, b: a + b)
    return [tuple(pair) for pair in counts.mapPartitions(best).coalesce(1).mapPartitions(best).collect()]


def page_rank(links_rdd, iterations):
    parts = links_rdd.getNumPartitions()
    if parts == 0:
        return {}

    def pages(links):
        known = {}
        for source, target in links:
            known.setdefault(source, set()).add(target)
            known.setdefault(target, set())
        return known.items()

    targets = links_rdd.mapPartitions(pages).reduceByKey(lambda a, b: a | b, parts).cache()
    state = targets.mapValues(lambda out: (out, 1.0))
    for _ in range(iterations):
        shares = state.flatMap(lambda entry: [(target, entry[1][1] / len(entry[1][0])) for target in entry[1][0]])
        received = shares.reduceByKey(lambda a, b: a + b, parts)
        state = targets.leftOuterJoin(received, parts).mapValues(
            lambda pair: (pair[0], 0.15 + 0.85 * (0.0 if pair[1] is None else pair[1]))
        )
    ranks = state.mapValues(lambda pair: pair[1]).collectAsMap()
    targets.unpersist()
    return ranks
