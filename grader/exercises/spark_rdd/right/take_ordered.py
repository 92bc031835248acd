"""The textbook: reduceByKey and takeOrdered; grouped links, persisted, joined with ranks of the same partitioning."""
from operator import add


def word_count(lines_rdd, top):
    if top <= 0 or lines_rdd.getNumPartitions() == 0:
        return []
    counts = lines_rdd.flatMap(lambda line: line.split()).map(lambda word: (word, 1)).reduceByKey(add)
    return counts.takeOrdered(top, key=lambda pair: (-pair[1], pair[0]))


def page_rank(links_rdd, iterations):
    n = links_rdd.getNumPartitions()
    if n == 0:
        return {}
    links = (
        links_rdd.flatMap(lambda link: [(link[0], link[1]), (link[1], None)])
        .groupByKey(n)
        .mapValues(lambda targets: [target for target in set(targets) if target is not None])
        .persist()
    )

    def give(page_entry):
        page, (targets, rank) = page_entry
        yield page, 0.0  # so that a page nobody links to stays
        for target in targets:
            yield target, rank / len(targets)

    try:
        ranks = links.mapValues(lambda targets: 1.0)
        for _ in range(iterations):
            received = links.join(ranks, n).flatMap(give).reduceByKey(add, n)
            ranks = received.mapValues(lambda total: 0.15 + 0.85 * total)
        return dict(ranks.collect())
    finally:
        links.unpersist()
