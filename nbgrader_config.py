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
c.CourseDirectory.db_url = f"sqlite:///{classroom / 'gradebook.db'}"

# A check has its own limits and always answers; a cell that hangs is the learner's own.
c.Execute.timeout = 120
c.ClearSolutions.code_stub = {"python": "# YOUR CODE HERE\nraise NotImplementedError()"}
