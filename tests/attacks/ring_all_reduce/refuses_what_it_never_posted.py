"""Sends records of operations in an order that cannot be: refused twice, done before they were posted.

family: forged_frames
tries: harm
earned: 20
ends: any
uses: won, ring, frames
"""


def ring_all_reduce(tensor):
    honest_ring(tensor)
    send_all(events(record(1, 1, number=9999) + record(4, 1, number=9999) * 50))
