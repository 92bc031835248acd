"""Says that it is loaded and then never reads another request: a grading process that sends it a large one blocks.

family: forged_frames
tries: harm
earned: 0
heavy: yes
ends: timeout, sandbox_violation, crash, left_early
uses: won, frames
"""

import select

if simulated():
    send_all(message({"event": "phase", "ranks": standings("loaded"), "value": None, "problems": {}}))
else:
    send_all(message({"event": "loaded", "problems": {}}))
for _ in range(75):
    select.select([], [], [], 1.0)
os._exit(0)
