"""nbgrader's settings: solutions/ is its source, exercises/ its release; a class lives in a folder of its own.

The class's submissions, feedback and gradebook are under $RANKUP_CLASS, or class/ beside this file.
"""

import os
import sys
from pathlib import Path

c = get_config()  # noqa: F821 - given by traitlets

# nbgrader calls `alembic` by name: it is beside the interpreter that runs us
os.environ["PATH"] = os.pathsep.join([str(Path(sys.executable).parent), os.environ.get("PATH", os.defpath)])

root = Path(__file__).parent.resolve()
classroom = Path(os.environ.get("RANKUP_CLASS", root / "class")).resolve()
classroom.mkdir(parents=True, exist_ok=True)

c.CourseDirectory.course_id = "rankup"
c.CourseDirectory.root = str(root)
c.CourseDirectory.source_directory = "solutions"
c.CourseDirectory.release_directory = "exercises"
c.CourseDirectory.submitted_directory = str(classroom / "submitted")
c.CourseDirectory.autograded_directory = str(classroom / "autograded")
c.CourseDirectory.feedback_directory = str(classroom / "feedback")
c.CourseDirectory.db_url = os.environ.get("RANKUP_DB") or f"sqlite:///{classroom / 'gradebook.db'}"

# What a submission says is not believed: its notebook runs in a box, and the grading service's record decides.
c.Autograde.exporter_class = "grader.classroom.autograde.Exporter"
c.Autograde.sanitize_preprocessors = [
    "grader.classroom.restore.Restore",
    "nbgrader.preprocessors.CheckCellMetadata",
]
c.Autograde.autograde_preprocessors = [
    "grader.classroom.autograde.Execute",
    "nbgrader.preprocessors.IgnorePattern",
    "nbconvert.preprocessors.ClearMetadataPreprocessor",
    "nbgrader.preprocessors.LimitOutput",
    "grader.classroom.autograde.Record",
    "nbgrader.preprocessors.SaveAutoGrades",
    "nbgrader.preprocessors.AssignLatePenalties",
    "nbgrader.preprocessors.CheckCellMetadata",
]

# Nor is it shown as it is, to its author or to the teacher: no scripts, in feedback and in formgrader.
c.HTMLExporter.sanitize_html = True
c.HTMLExporter.filters = {
    "clean_html": "grader.classroom.clean.html",
    "strip_files_prefix": "grader.classroom.clean.markdown",
}

# A check has its own limits and always answers; a cell that hangs is the learner's own.
c.Execute.timeout = 60
c.ClearSolutions.code_stub = {"python": "# YOUR CODE HERE\nraise NotImplementedError()"}
