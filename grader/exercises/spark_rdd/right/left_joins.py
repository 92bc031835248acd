"""Contributions are joined to all pages, from the left; words are counted in each partition first."""

from collections import Counter

from pyspark import StorageLevel


def word_count(lines_rdd, top):
    def local(lines):
        found = Counter()
        for line in lines:
            found.update(line.split())
        return found.items()

    total = lines_rdd.mapPartitions(local).reduceByKey(lambda one, other: one + other)
    best = total.map(lambda pair: (-pair[1], pair[0])).takeOrdered(top)
    return [(word, -count) for count, word in best]


def page_rank(links_rdd, iterations):
    both = links_rdd.flatMap(lambda link: [(link[0], (link[1],)), (link[1], ())])
    links = both.aggregateByKey(frozenset(), frozenset.union, frozenset.union, 3).persist(StorageLevel.MEMORY_AND_DISK)
    links.count()
    ranks = links.mapValues(lambda targets: 1.0)
    for _ in range(iterations):
        sent = links.join(ranks).values().flatMap(lambda pair: [(page, pair[1] / len(pair[0])) for page in pair[0]])
        ranks = links.leftOuterJoin(sent.reduceByKey(lambda a, b: a + b, 3)).mapValues(
            lambda pair: 0.15 + 0.85 * (pair[1] or 0.0)
        )
    try:
        return ranks.collectAsMap()
    finally:
        links.unpersist()
