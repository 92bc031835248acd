"""Grades references, one a line of stdin, and prints a line of JSON of each: its points, and what was said of checks
that gave none."""

import json
import sys
from pathlib import Path

from grader import submission
from grader.grading import grade
from grader.ranks.engines import Engines
from grader.registry import find

with Engines() as engines:
    for line in sys.stdin:
        path = Path(line.strip())
        exercise = find(path.stem)
        verdict = grade(exercise, submission.read(path, exercise.function_names), engines, 1)
        said = {check.name: check.diagnosis.message for check in verdict.checks if check.diagnosis}
        told = {"points": verdict.points, "of": verdict.max_points, "said": said, "mode": engines.warm.mode}
        print(json.dumps(told), flush=True)
