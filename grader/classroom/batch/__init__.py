"""Grading a whole class: submissions in, verdicts from workers, nbgrader's gradebook and pages out."""
