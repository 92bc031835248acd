"""Allocates in tasks what the whole box may not.

family: bombs
tries: harm
earned: 0
ends: out_of_memory, crash, wrong_result
"""

def word_count(lines_rdd, top):
    def hoard(_):
        held = [bytearray(b"x" * 2**27) for _ in range(32)]
        return [len(held)]

    return lines_rdd.mapPartitions(hoard).collect()


def page_rank(links_rdd, iterations):
    return {}
