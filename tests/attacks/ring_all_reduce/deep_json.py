"""Sends headers that are nested so deep, or hold numbers so long, that a careless reader breaks.

family: forged_frames
tries: harm
earned: 0
ends: sandbox_violation, crash
uses: won, frames
"""


def ring_all_reduce(tensor):
    send_all(message(None, text='{"event": "phase", "ranks": ' + "[" * 900 + "]" * 900 + "}"))
    send_all(message(None, text='{"event": ' + "9" * 4200 + "}"))
    send_all(message(None, text='{"event": ' + "[" * 1_000_000))
