"""Ends the process with success while it is being imported.

family: while_loading
tries: harm
earned: 0
ends: crash, left_early, sandbox_violation, missing_function
uses: won
"""

os._exit(0)
