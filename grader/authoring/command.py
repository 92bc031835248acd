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
