"""Cells that ask the person at the keyboard, stop the kernel, and close its sockets.

tries: harm
earned: 16
paid: yes
"""

# %% solution
@NAIVE@

# %% first
try:
    input("20 points? ")
except Exception as error:
    print(error)

# %% playground
import os

os.closerange(3, 1024)
