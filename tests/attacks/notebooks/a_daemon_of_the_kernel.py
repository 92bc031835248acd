"""Leaves processes behind that the kernel has started and let go, and threads that print after their cell has ended.

tries: harm
earned: 16
paid: yes
"""

# %% solution
@NAIVE@

# %% playground
import ctypes
import os
import threading
import time

ctypes.CDLL(None).prctl(15, b"@NAME@", 0, 0, 0)
if os.fork() == 0:
    os.setsid()
    if os.fork() == 0:
        time.sleep(60)
    os._exit(0)


def late():
    for _ in range(100):
        time.sleep(0.1)
        print("20.0")


threading.Thread(target=late, daemon=False).start()
