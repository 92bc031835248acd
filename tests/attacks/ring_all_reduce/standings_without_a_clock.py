"""A forged report on how the simulated ranks stand, in which the finish times are missing.

family: forged_frames
tries: harm
earned: 2
ends: any
uses: won, ring, frames
"""


def ring_all_reduce(tensor):
    honest_ring(tensor)
    if simulated():
        ranks = [{k: v for k, v in each.items() if k != "clock"} for each in standings()]
        value = [[[None], None] for _ in ranks]
        send_all(message({"event": "phase", "ranks": ranks, "value": value, "problems": {}}))
