"""Links are joined as they are, not grouped: every link is moved in every iteration.

check: rank_bytes
kind: too_many_bytes
"""

def word_count(lines_rdd, top):
    pairs = lines_rdd.flatMap(str.split).map(lambda word: (word, 1)).reduceByKey(lambda a, b: a + b)
    return pairs.takeOrdered(top, key=lambda pair: (-pair[1], pair[0]))


def page_rank(links_rdd, iterations):
    links = links_rdd.distinct().map(lambda link: (link[0], link[1])).persist()
    pages = links.flatMap(lambda link: [link[0], link[1]]).distinct().map(lambda page: (page, 0.0)).persist()
    degrees = links.mapValues(lambda _: 1).reduceByKey(lambda a, b: a + b).persist()
    ranks = pages.mapValues(lambda _: 1.0)
    for _ in range(iterations):
        given = links.join(degrees.join(ranks)).map(lambda item: (item[1][0], item[1][1][1] / item[1][1][0]))
        ranks = given.union(pages).reduceByKey(lambda a, b: a + b, 4).mapValues(damped)
    found = ranks.collectAsMap()
    for rdd in (links, pages, degrees):
        rdd.unpersist()
    return found


def shared(item):
    """What a page gives to those it links to, and nothing to itself, so that it stays."""
    page, (targets, rank) = item
    return [(page, 0.0)] + [(target, rank / len(targets)) for target in targets]


def damped(total):
    return 0.15 + 0.85 * total
