"""What exercises share whose scripts run under torchrun."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from grader.lost import Lost
from grader.ranks.program import Program
from grader.submission import Source

IMPORTED = (  # by the process from which agents and workers are forked; it takes seconds
    "torch._dynamo",
    "torch.optim",
    "torch.utils.data",
    "torch.nn.parallel",
    "torch.distributed.launcher.api",
    "torch.distributed.elastic.rendezvous.c10d_rendezvous_backend",
    "torch.distributed.run",
)


def raised(told: dict[str, Any], program: Program) -> str:
    """What a worker of a job raised, and at which line, in a sentence; "" where none did."""
    found = told["raised"]
    if not found:
        return ""
    quoted = Source(program.file, program.source).quote(found["line"])
    return f"A worker raised {found['text'].splitlines()[0][:200].rstrip('.')}{quoted}."


def marked(lost: Lost, told: dict[str, Any]) -> Lost:
    """The same, with the line at which a worker raised, if one did."""
    line = told["raised"]["line"] if told["raised"] else None
    return Lost(replace(lost.diagnosis, line=line), lost.picture)
