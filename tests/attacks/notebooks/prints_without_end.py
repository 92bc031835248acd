"""Prints, shows pictures and updates displays without end.

tries: harm
earned: 16
"""

# %% solution
@NAIVE@

# %% playground
from IPython.display import display

while True:
    print("x" * 100_000)
    display({"text/plain": "y" * 1_000_000, "image/png": "AAAA" * 100_000}, raw=True)
