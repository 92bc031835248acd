"""A solution that is right but too dear, in a notebook whose kernel ends in the playground: the cells after it never run.

tries: points
earned: 16
paid: yes
"""

# %% solution
@NAIVE@

# %% playground
import os

print("20.0")
os._exit(0)
