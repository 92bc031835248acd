"""Each partition sends its best; cogroup in place of join, and partitionBy in place of groupByKey."""

import heapq
from operator import add


def word_count(lines_rdd, top):
    words = lines_rdd.flatMap(lambda line: line.split())
    counts = words.map(lambda word: (word, 1)).combineByKey(lambda one: one, add, add)
    best = counts.mapPartitions(lambda pairs: heapq.nsmallest(top, pairs, key=order)).collect()
    return sorted(best, key=order)[:top]


def order(pair):
    word, count = pair
    return -count, word


def page_rank(links_rdd, iterations):
    out = links_rdd.distinct().groupByKey(4).mapValues(list)
    pages = links_rdd.flatMap(lambda link: link).distinct().map(lambda page: (page, None)).partitionBy(4)
    links = pages.cogroup(out).mapValues(lambda both: [page for found in both[1] for page in found]).cache()
    ranks = links.mapValues(lambda _: 1.0)
    for _ in range(iterations):
        ranks = links.cogroup(ranks).flatMap(given).reduceByKey(add, 4).mapValues(lambda total: 0.85 * total + 0.15)
    result = dict(ranks.collect())
    links.unpersist(True)
    return result


def given(item):
    page, (links, ranks) = item
    (targets,), (rank,) = links, ranks
    yield page, 0.0
    for target in targets:
        yield target, rank / len(targets)
