"""Whether an exercise is whole: what `rankup exercise check` says is wrong with it, and what to do."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from grader import catalog, registry, submission
from grader.authoring import sync, verdicts, wrong
from grader.authoring.wrong import REFERENCE
from grader.classroom.pages import reading
from grader.exercise import Exercise
from grader.grading import grade
from grader.ranks.engines import Engines
from grader.ranks.program import HOST
from grader.submission import Submission
from grader.verdict import Verdict

Show = Callable[[str], None]


def problems(name: str, show: Show = lambda said: None, device: str = HOST) -> Iterator[str]:
    """What is wrong with an exercise, a sentence each. Grades all its submissions, and `show` is told of each;
    tensors of ranks are on the `device`."""
    exercise = registry.find(name)
    yield from written(exercise)
    with Engines() as engines:
        yield from _graded(exercise, engines, show, device)


def written(exercise: Exercise) -> Iterator[str]:
    """What is wrong with what is written down. Raises BadRequest where wrong.md cannot be read."""
    name = exercise.name
    alone = {each.check for each in wrong.wrongs(name) if each.only}
    for check in exercise.checks:
        if check.name not in alone:
            yield f"no wrong submission is caught by '{check.name}' alone: add one to wrong.md with 'only: yes'"
    if len(wrong.right(name)) < 2:
        yield "right/ must hold at least two right solutions that differ from the notebook's: add them"
    for path in sync.sync([name], dry=True):
        yield f"{path} does not match EXERCISE: run `rankup exercise sync {name}`"
    yield from _in_the_course(exercise)


def _in_the_course(exercise: Exercise) -> Iterator[str]:
    chapter = catalog.chapter_notebook(exercise.chapter)
    if chapter is None:
        yield f"there is no chapter {exercise.chapter}: set 'chapter' to one of those in course/syllabus.yaml"
        return
    text = "\n".join("".join(cell["source"]) for cell in sync.read(chapter)["cells"])
    headings = {line.lstrip("#").strip() for line in text.splitlines() if line.startswith("#")}
    for owner, heading in reading.headings():
        if owner == exercise.name and heading not in headings:
            yield f"{chapter.name} has no section {heading!r}, but feedback pages name it: see classroom/pages/reading"
    source = catalog.solution_notebook(exercise.name)
    if source.name != "solution.ipynb" and f"{source.parent.name}/{source.name}" not in text:
        link = f"../exercises/{source.parent.name}/{source.name}"
        yield f"{chapter.name} does not link to the exercise: add a link to {link} under Practise"


def _graded(exercise: Exercise, engines: Engines, show: Show, device: str) -> Iterator[str]:
    name = exercise.name

    def verdict(called: str, handed_in: Submission) -> Verdict:
        show(called)
        return grade(exercise, handed_in, engines, verdicts.SEED, device=device)

    stub = submission.read(sync.released_notebook(catalog.solution_notebook(name)), exercise.function_names)
    for check in verdict("the unsolved notebook", stub).checks:
        if check.status == "pass":
            yield f"'{check.name}' gives points for the unsolved notebook"
    for each in [REFERENCE, *(f"right/{path.stem}" for path in wrong.right(name))]:
        lost = verdict(each, verdicts.handed_in(name, each)).first_failure
        if lost:
            why = lost.diagnosis.message if lost.diagnosis else lost.status
            yield f"{each} is right, but loses points in '{lost.name}': {why}"
    for one in wrong.wrongs(name):
        said = verdicts.missed(one, verdict(f"wrong/{one.name}", one.submission))
        if said:
            yield f"wrong/{one.name}: {said}"
