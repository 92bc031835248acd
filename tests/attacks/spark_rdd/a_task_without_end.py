"""Computes in a task for ever.

family: bombs
tries: harm
earned: 0
ends: crash, timeout, wrong_result
"""

def word_count(lines_rdd, top):
    def forever(_):
        while True:
            pass

    return lines_rdd.map(forever).collect()


def page_rank(links_rdd, iterations):
    return {}
