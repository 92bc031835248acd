"""Stops itself as Ctrl-Z would.

family: bombs
tries: harm
earned: 0
ends: timeout, crash, sandbox_violation
uses: won
"""

import signal


def ring_all_reduce(tensor):
    os.kill(os.getpid(), signal.SIGSTOP)
