"""Sends records of messages to ranks two thousand million and minus five, of unknown kinds and in groups that do not
exist: the picture of the run has no place for them.

family: forged_frames
tries: harm
earned: 20
ends: any
uses: won, ring, frames
"""


def ring_all_reduce(tensor):
    honest_ring(tensor)
    records = b""
    for number, (kind, peer) in enumerate([(1, 2**31 - 1), (2, -5), (3, 10**6), (77, 3), (16, -1), (255, -9), (31, 0)]):
        records += record(1, kind, peer, 7 << 40, 5000 + number, 2**63, 2**64 - 1, 65535, 0xFFFE)
        records += record(2, kind, peer, 0, 5000 + number)
    send_all(events(records))
