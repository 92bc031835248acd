def word_count(lines_rdd, top):
    pairs = lines_rdd.flatMap(str.split).map(lambda word: (word, 1)).reduceByKey(lambda a, b: a + b)
    return pairs.takeOrdered(top, key=lambda pair: (-pair[1], pair[0]))


def page_rank(links_rdd, iterations):
    pairs = links_rdd.distinct().flatMap(lambda link: [(link[0], link[1]), (link[1], None)])
    links = pairs.groupByKey(4).mapValues(lambda found: [page for page in found if page is not None]).persist()
    ranks = links.mapValues(lambda _: 1.0)
    for _ in range(iterations):
        ranks = links.join(ranks).flatMap(shared).reduceByKey(lambda a, b: a + b, 4).mapValues(damped)
    found = ranks.collectAsMap()
    links.unpersist()
    return found


def shared(item):
    """What a page gives to those it links to, and nothing to itself, so that it stays."""
    page, (targets, rank) = item
    return [(page, 0.0)] + [(target, rank / len(targets)) for target in targets]


def damped(total):
    return 0.15 + 0.85 * total
