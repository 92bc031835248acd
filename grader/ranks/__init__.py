"""Worlds that run torch.distributed code and say how it ended: real processes on gloo, and blame.

A Program is run on N ranks by an engine; what comes back is a Run: outputs, a trace, an ending and diagnoses.
"""

WORKER = "grader.ranks.worker"  # the module that a warm host imports, and whose main() becomes each rank
