"""Python's side of Spark's tasks, shut off: a submission's functions may write in folders of theirs alone.

The JVM starts this in place of `pyspark.daemon` (spark.python.daemon.module), and it does what that does. The forks
that run tasks are ended after each run (see `host`): nothing is left of a submission in Python's memory.
"""

from __future__ import annotations

import gc
import os
import resource

from grader.sandbox.first import keep_to

CPU_SECONDS = 20  # of one task


def to(folders: list[str]) -> None:
    """For good, write in these folders alone, as far as the kernel sees to that. The first is for what is temporary."""
    keep_to(folders, read=[*folders, os.path.dirname(folders[0])])


def main() -> None:
    import pyspark.worker  # here once, and not in every fork  # noqa: F401
    from pyspark import daemon

    to([os.environ["RANKUP_TASKS"]])
    resource.setrlimit(resource.RLIMIT_CPU, (CPU_SECONDS, CPU_SECONDS))
    gc.freeze()
    daemon.manager()


if __name__ == "__main__":
    main()
