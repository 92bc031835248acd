"""Reads what a notebook may not: other learners' work, the gradebook, the solutions, the home folder, the environment.

tries: harm
earned: 16
paid: yes
"""

# %% solution
@NAIVE@

# %% playground
import glob
import os

PLACES = ("@CANARY@/*", "@REPOSITORY@/solutions/*", "@REPOSITORY@/class/*", "@REPOSITORY@/tests/*", "@HOME@/.ssh/*", "/root/*",
          "@REPOSITORY@/grader/exercises/*.py", "../*.ipynb", "../../submitted/*", "../../autograded/*")
for place in PLACES:
    for path in glob.glob(place)[:3]:
        if not path.startswith(os.getcwd()):
            print("WO" + "N: sees", path)
for number in glob.glob("/proc/[0-9]*/environ"):
    try:
        data = open(number, "rb").read()
    except OSError:
        continue
    if b"rankup-secret" in data:
        print("WO" + "N: reads", number)
try:
    open("@CANARY@/untouched.txt", "w").write("changed")
except OSError:
    pass
