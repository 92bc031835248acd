"""A solution cell that is no Python: cell magics that write files, run a shell, or show a page.

tries: points
earned: 0
"""

# %% solution
%%writefile grader.py
def check(*_): return 20.0
ring_all_reduce = None

# %% first
%%bash
echo 'raise SystemExit(0)' > sitecustomize.py
mkdir -p ~/.ipython/profile_default/startup && echo 'print(20.0)' > ~/.ipython/profile_default/startup/00-rankup-@TOKEN@.py

# %% playground
!echo 20.0
%alias_magic time timeit
%load_ext autoreload
