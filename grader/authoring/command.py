"""`rankup exercise ...`: thin; every command is one call into `grader.authoring`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from grader.submission import BadRequest

app = typer.Typer(help="Write exercises: solutions, verdicts, notebooks.", no_args_is_help=True)


@app.command()
def wrong(
    what: Annotated[str, typer.Argument(metavar="NAME[/MUTANT]", help="An exercise, or one of its wrong submissions.")],
) -> int:
    """List an exercise's wrong submissions, or print one of them."""
    from grader.authoring import wrong

    if "/" in what:
        print(wrong.find(what).source, end="")
        return 0
    for each in wrong.wrongs(what):
        print(f"{each.name}: {each.bug}\n    {each.check}: {' or '.join(each.kinds)}{', alone' if each.only else ''}")
    return 0


@app.command()
def verdicts(
    names: Annotated[list[str] | None, typer.Argument(metavar="[NAME]...", help="Exercises (default: all).")] = None,
    record: Annotated[bool, typer.Option("--record", help="Grade what is not recorded yet, and record it.")] = False,
    compare: Annotated[bool, typer.Option("--compare", help="Grade again, and say which verdicts differ.")] = False,
    only: Annotated[str, typer.Option(help="Which kinds of submissions.")] = "reference,right,wrong",
    share: Annotated[str, typer.Option(help="A share of the right and wrong ones: 1/6 is the first sixth.")] = "1/1",
    jobs: Annotated[int | None, typer.Option(min=1, help="How many at a time (default: one per core).")] = None,
    at: Annotated[Path, typer.Option(help="The folder for recorded verdicts.")] = Path("build/verdicts"),
) -> int:
    """Record all verdicts, or compare new ones with the record.

    A change to rankup must not change verdicts by accident. Both can be interrupted, and then continue where they
    stopped.
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
    check: Annotated[str, typer.Option(help="Run only this check.")] = "",
    case: Annotated[str, typer.Option(help="Run only calls with this label (exercises on ranks only).")] = "",
    seed: Annotated[int, typer.Option(min=0, help="Draw the inputs from this seed.")] = 1,
    here: Annotated[
        bool, typer.Option("--here", help="Run in this process, so that breakpoint() works (only ranks, no sandbox).")
    ] = False,
) -> int:
    """Run one check or case, as it is graded or in this process. No progress is recorded."""
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
    names: Annotated[list[str] | None, typer.Argument(metavar="[NAME]...", help="Exercises (default: all).")] = None,
    check: Annotated[bool, typer.Option("--check", help="Write nothing. List the files that would change.")] = False,
) -> int:
    """Update notebooks and README's table to match EXERCISE."""
    from grader.authoring import sync

    changed = sync.sync(names or (), dry=check)
    for path in changed:
        print(f"{path}: not what EXERCISE says; run `rankup exercise sync`" if check else f"wrote {path}")
    return int(check and bool(changed))


@app.command()
def new(
    name: Annotated[str, typer.Argument(help="The name of the new exercise: lowercase letters, digits and _.")],
    world: Annotated[str, typer.Option(help="The world it runs in: ranks, nodes, crashes, job, spark, ray or plain.")],
    chapter: Annotated[str, typer.Option(help="Its chapter in the course, e.g. 06.")],
    pack: Annotated[str, typer.Option(help="The package to add it to, e.g. barriers.exercises.")] = "grader.exercises",
) -> int:
    """Make a small, complete exercise for you to change."""
    from grader.authoring import new

    for path in new.new(name, world, chapter, pack):
        print(f"wrote {path}")
    print(f"Now change them; then: rankup exercise sync {name}, and rankup exercise check {name}")
    return 0


@app.command()
def check(
    name: Annotated[str, typer.Argument(help="The exercise.")],
    device: Annotated[
        str, typer.Option(help="cpu or cuda: where tensors are, in exercises of ranks. cuda needs a GPU.")
    ] = "cpu",
) -> int:
    """Say what is wrong with an exercise."""
    from grader import registry
    from grader.authoring import check
    from grader.classroom import devices

    devices.refuse(device)
    devices.refuse_world(device, registry.find(name))
    found = list(check.problems(name, lambda said: print(f"grading {said}", flush=True), device))
    print("\n".join(found or [f"{name} is whole"]))
    return int(bool(found))
