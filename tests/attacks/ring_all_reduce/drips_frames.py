"""Never returns, computes next to nothing, and every second lets the grading process hear an empty frame: who waits for
silence or for processor time waits for ever.

family: forged_frames
tries: harm
earned: 0
heavy: yes
ends: timeout, sandbox_violation, crash
uses: won, frames
"""

import select


def ring_all_reduce(tensor):
    for _ in range(75):
        select.select([], [], [], 1.0)  # not time.sleep, which the simulator has taken over
        send_all(events(b""))
    os._exit(0)
