"""A cell that never ends, before all others; the solution is right but too dear.

tries: harm
earned: 16
paid: yes
"""

# %% solution
@NAIVE@

# %% first
while True:
    pass
