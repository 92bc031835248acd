"""Reports twenty thousand calls that are not allowed, each at another line.

family: forged_frames
tries: harm
earned: 2
ends: any
uses: won, ring, frames
"""


def ring_all_reduce(tensor):
    honest_ring(tensor)
    if simulated():
        one = [{"event": "forbidden", "rank": 0, "call": f"call_{i}", "line": i} for i in range(20_000)]
        send_all(b"".join(map(message, one)))
