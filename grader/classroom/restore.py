"""nbgrader's step before all others: a submitted notebook is made whole, as `rankup class grade` makes it."""

from __future__ import annotations

from contextlib import closing
from typing import Any

from nbgrader.preprocessors import NbGraderPreprocessor

from grader.classroom.batch import course, publish, whole
from grader.classroom.batch.book import Book
from grader.submission import Unreadable, cells_of


class Restore(NbGraderPreprocessor):  # type: ignore[misc]
    """Makes a submitted notebook whole: well-formed cells without outputs, the teacher's own and their marks as the
    gradebook has them. Graded cells that were removed come back."""

    def preprocess(self, nb: Any, resources: Any) -> tuple[Any, Any]:
        where = resources["nbgrader"]
        with closing(Book(course.of(self.config, where["db_url"]), where["assignment"])) as book:
            notebook = book.notebook(where["notebook"])
        try:
            cells, odd = cells_of(nb)
        except Unreadable as error:
            cells, odd = [], [f"the notebook {error}"]
        made = whole.make(cells, notebook, ())
        for remark in (*odd, *made.odd):
            self.log.warning("%s: %s", where["student"], remark)
        return publish.graded_notebook(made, notebook, None), resources
