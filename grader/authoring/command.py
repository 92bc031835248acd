"""`rankup exercise ...`: thin; every command is one call into `grader.authoring`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from grader.submission import BadRequest

app = typer.Typer(help="Write exercises: their wrong and right solutions, verdicts, notebooks.", no_args_is_help=True)


@app.command()
def wrong(
    what: Annotated[str, typer.Argument(metavar="NAME[/MUTANT]", help="An exercise, or a wrong submission to it.")],
) -> int:
    """List the wrong submissions to an exercise, or print one as a file for `rankup grade`."""
    from grader.authoring import wrong

    if "/" in what:
        print(wrong.find(what).source, end="")
        return 0
    for each in wrong.wrongs(what):
        print(f"{each.name}: {each.bug}\n    {each.check}: {' or '.join(each.kinds)}{', alone' if each.only else ''}")
    return 0


@app.command()
def verdicts(
    names: Annotated[list[str] | None, typer.Argument(metavar="[NAME]...", help="Exercises; all if left out.")] = None,
    record: Annotated[bool, typer.Option("--record", help="Grade and write down what is not there yet.")] = False,
    compare: Annotated[bool, typer.Option("--compare", help="Grade again, and say what is different.")] = False,
    only: Annotated[str, typer.Option(help="Which submissions.")] = "reference,right,wrong",
    share: Annotated[str, typer.Option(help="Of right and wrong ones the first of six parts: 1/6.")] = "1/1",
    jobs: Annotated[int | None, typer.Option(min=1, help="How many at a time; one a core if left out.")] = None,
    at: Annotated[Path, typer.Option(help="The folder they are in.")] = Path("build/verdicts"),
) -> int:
    """Record the verdicts on all example submissions, or compare them: a change must not change them by accident.

    Both can be interrupted, and go on where they were.
    """
    from grader.authoring import verdicts

    if record == compare:
        raise BadRequest("say --record or --compare")
    wanted = verdicts.Wanted(names or (), only.split(","), verdicts.parse_share(share))
    if record:
        verdicts.record(wanted, at, jobs or verdicts.cores(), print)
        return 0
    return 1 if verdicts.compare(wanted, at, jobs or verdicts.cores(), print) else 0


@app.command()
def run(
    name: Annotated[str, typer.Argument(help="The exercise.")],
    file: Annotated[Path, typer.Argument(help="The submission: a .py or an .ipynb file.")],
    check: Annotated[str, typer.Option(help="Only this check.")] = "",
    case: Annotated[str, typer.Option(help="Only the calls so labelled, of exercises on ranks.")] = "",
    seed: Annotated[int, typer.Option(min=0, help="Draw the inputs from this seed.")] = 1,
    here: Annotated[
        bool, typer.Option("--here", help="In this process, where breakpoint() stops: your own code, on ranks.")
    ] = False,
) -> int:
    """Run one check, or one case of it, as it is graded or in this process. Nothing is remembered."""
    from grader.authoring import run

    found = run.chosen(name, check, case, seed)
    if here:
        return run.here(found, file, seed)
    from grader.classroom import terminal

    shown = terminal.TerminalReport()
    verdict = run.graded(found, file, seed)
    for each in verdict.checks:
        shown.check(each)
    return 0 if verdict.passed else 1


@app.command()
def sync(
    names: Annotated[list[str] | None, typer.Argument(metavar="[NAME]...", help="Exercises; all if left out.")] = None,
    check: Annotated[bool, typer.Option("--check", help="Write nothing; say what is not in step.")] = False,
) -> int:
    """Write graded cells, points, titles and headers of notebooks, and README's table, as EXERCISE says."""
    from grader.authoring import sync

    changed = sync.sync(names or (), dry=check)
    for path in changed:
        print(f"{path}: not what EXERCISE says; run `rankup exercise sync`" if check else f"wrote {path}")
    return int(check and bool(changed))


@app.command()
def new(
    name: Annotated[str, typer.Argument(help="What it is to be called: small letters, digits and _.")],
    world: Annotated[str, typer.Option(help="What it is about: ranks, nodes, crashes, job, spark, ray or plain.")],
    chapter: Annotated[str, typer.Option(help="Of the course, e.g. 06.")],
    pack: Annotated[str, typer.Option(help="The package it goes into, e.g. barriers.exercises.")] = "grader.exercises",
) -> int:
    """Make an exercise that is whole and small: a folder, a notebook, wrong and right solutions, to be changed."""
    from grader.authoring import new

    for path in new.new(name, world, chapter, pack):
        print(f"wrote {path}")
    print(f"Now change them; then: rankup exercise sync {name}, and rankup exercise check {name}")
    return 0


@app.command()
def check(name: Annotated[str, typer.Argument(help="The exercise.")]) -> int:
    """Say what an exercise lacks: a check that nothing wrong tests, a right solution that loses points, a link."""
    from grader.authoring import check

    found = list(check.problems(name, lambda said: print(f"grading {said}", flush=True)))
    print("\n".join(found or [f"{name} is whole"]))
    return int(bool(found))
