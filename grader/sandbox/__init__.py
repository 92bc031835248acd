"""The box a learner's code runs in: a warm process that forks ranks, keepers that end them, and the frame protocol.

Knows nothing of torch and of what the code means; `ranks` names the module that is kept warm and run in each fork.
"""

import sys

# Elsewhere a box is not shut, and holds one process: of simulated ranks, or of nodes.
LINUX = sys.platform == "linux"
