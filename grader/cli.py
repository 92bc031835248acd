"""`rankup ...`: thin; every command is one call into the package.

Exit status: 0 full marks or success; 1 points lost, or the thing checked is wrong; 2 the request itself is bad, with
one sentence on stderr.
"""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import json
import os
import signal
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from grader import cli_nodes, cli_quiz, says
from grader.authoring import command as authoring
from grader.submission import BadRequest

if TYPE_CHECKING:
    from grader.sandbox.warm import Warm

app = typer.Typer(
    help="Course and grader for interviews on distributed systems and distributed machine learning.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,  # importing rich takes as long as all else of --help
    context_settings={"help_option_names": ["-h", "--help"]},
)
class_app = typer.Typer(help="Grade a whole class.", no_args_is_help=True)
app.add_typer(class_app, name="class")
app.add_typer(cli_nodes.history_app, name="history")
app.add_typer(cli_nodes.nodes_app, name="nodes")
app.add_typer(cli_quiz.app)
app.add_typer(authoring.app, name="exercise")


def _version(asked: bool) -> None:
    if asked:
        import importlib.metadata

        print(f"rankup {importlib.metadata.version('rankup')}")
        raise typer.Exit


@app.callback()
def _options(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Print the version and exit.")
    ] = False,
    no_service: Annotated[
        bool, typer.Option("--no-service", help="Start everything anew: do not use, or start, the warm service.")
    ] = False,
) -> None:
    """Of rankup itself."""


_ahead: Warm | None = None  # a host that was started before the command line is read


def _host() -> Warm:
    """What ranks are forked from."""
    if _ahead is not None:
        return _ahead
    from grader.ranks import WORKER
    from grader.sandbox.warm import Warm

    return Warm(WORKER)


def _exercises(begun: str) -> list[str]:
    """For the shell's completion."""
    from grader import registry

    return sorted(name for name in registry.folders() if name.startswith(begun))


EXERCISE = Annotated[
    str, typer.Argument(help="Name of the exercise, as `rankup list` shows it.", autocompletion=_exercises)
]

FILE = Annotated[
    Path | None, typer.Argument(help="The submission: a .py or an .ipynb file (default: your copy under work/).")
]


@app.command()
def grade(
    exercise: EXERCISE,
    file: FILE = None,
    engine: Annotated[str, typer.Option(help="auto, sim, gloo, nccl or all.")] = "auto",
    device: Annotated[
        str, typer.Option(help="cpu or cuda: where tensors are, in exercises of ranks. cuda needs a GPU.")
    ] = "cpu",
    seed: Annotated[int | None, typer.Option(min=0, help="Draw the inputs from this seed.")] = None,
    check: Annotated[list[str] | None, typer.Option(help="Grade only this check (repeatable).")] = None,
    only_failed: Annotated[
        bool, typer.Option("--only-failed", help="Grade only the checks that failed when you graded them last.")
    ] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print the verdict as JSON.")] = False,
    html: Annotated[Path | None, typer.Option(help="Also write the verdict, with diagrams, to this HTML file.")] = None,
    keep: Annotated[Path | None, typer.Option(help="Save the schedules that broke your nodes to this folder.")] = None,
    replay: Annotated[Path | None, typer.Option(help="Replay only this saved schedule.")] = None,
) -> int:
    """Grade a submission and say what happened."""
    from grader.classroom import grading, schedules, which

    if keep is not None and not keep.is_dir():
        raise BadRequest(f"{keep}: no such folder. Create it, or name another one for --keep")
    if html is not None and not html.parent.is_dir():
        raise BadRequest(f"{html}: no such folder: {html.parent}. Create it first")
    exercise, file = which.meant(exercise, file)
    schedule = None if replay is None else schedules.read(replay, exercise)
    checks = [*(check or ()), *(which.failed_last(exercise) if only_failed else ())]
    try:
        verdict, handed_in = grading.grade_file(
            exercise, file, engine, seed, not as_json, _ahead, schedule, html is None, checks, device
        )
    except grading.NotWritten as nothing:
        print(says.wrapped(str(nothing), sys.stdout))
        return 1
    if not as_json and schedule is None and not checks:
        _after(exercise, file, verdict.passed)
    kept = schedules.keep(verdict, keep) if keep is not None else []
    if kept and not as_json:
        print("\n".join(f"saved a schedule: {path}. To replay it, add --replay {path}" for path in kept))
    if as_json:
        print(json.dumps(verdict.to_json()))
    if html is not None:
        from grader.classroom import running
        from grader.classroom.pages import feedback
        from grader.trace import moments

        when = time.strftime("%d %B %Y, %H:%M").lstrip("0")
        page = feedback.page(verdict, handed_in.source, learner=file.name, when=when, scripts=[moments.player()])
        running.write_whole(html, page)
    return 0 if verdict.passed else 1


@app.command()
def watch(
    exercise: EXERCISE,
    file: FILE = None,
) -> int:
    """Grade a file each time you save it.

    What failed last is graded first, and grading stops at the first check
    that fails. Keys give hints, pictures and the next exercise.
    """
    from grader.classroom import which

    exercise, file = which.meant(exercise, file)
    with _host() as host:
        from grader.classroom import watch
        from grader.ranks.engines import Engines

        watch.watch(exercise, file, Engines(host), _ending)
    return 0


def _after(exercise: str, file: Path, passed: bool) -> None:
    """What a learner is told below a verdict."""
    from grader.classroom import lesson

    if not passed:
        lesson.print_offer(exercise)
    else:
        _ending(exercise, file)


def _ending(exercise: str, file: Path) -> None:
    """What a learner is told below full marks."""
    from grader.classroom import lesson

    lesson.print_ending(exercise, file)
    if sys.stdout.isatty():  # reading all cards takes a quarter of a second: not where nobody is told
        from grader.standing import gather, terminal

        with contextlib.suppress(BadRequest):  # where progress cannot be read, nothing is next
            terminal.show_next(gather.gather())


@app.command()
def run(
    what: Annotated[
        str,
        typer.Argument(metavar="FILE[:FUNCTION]", help="A program (.py), or a function in it or in a notebook."),
    ],
    arguments: Annotated[
        list[str] | None,
        typer.Argument(metavar="[-- ARGUMENTS]", help="The program's own arguments.", show_default=False),
    ] = None,
    ranks: Annotated[int, typer.Option(min=1, help="How many ranks run it.")] = 4,
    module: Annotated[
        bool, typer.Option("-m", help="FILE is the name of a module that is found from here, as with python -m.")
    ] = False,
    folder: Annotated[
        Path | None, typer.Option(metavar="DIR", help="Let the program see DIR and work there, not its own folder.")
    ] = None,
    engine: Annotated[str, typer.Option(help="auto (sim, or gloo if sim cannot run it), sim, gloo or nccl.")] = "auto",
    network: Annotated[
        str,
        typer.Option(
            help="The name of a network, or alpha=10us,beta=1ns,... (default: each message takes 1, so that virtual "
            "time counts rounds)."
        ),
    ] = "",
    machine: Annotated[
        str,
        typer.Option(
            help="The name of a machine, 8xh100 or nvl72: matrix products take virtual time by their FLOPs, and the "
            "network is the machine's, unless --network names another."
        ),
    ] = "",
    fault: Annotated[
        list[str] | None, typer.Option(help="Inject a fault: kill:2@op=5, slow:2x4, drop:0-1@op=3, ... (repeatable).")
    ] = None,
    seed: Annotated[int | None, typer.Option(min=0, help="Seed for the schedule and for random numbers.")] = None,
    output: Annotated[
        Path | None, typer.Option(metavar="DIR", help="Write what each rank prints to a file in DIR, rank-0.txt, ...")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print what happened as JSON, with all output.")] = False,
    trace: Annotated[Path | None, typer.Option(help="Write the run as OUT.svg, OUT.html or OUT.json.")] = None,
    cpu: Annotated[
        float, typer.Option(min=0.1, metavar="SECONDS", help="CPU time after which a rank counts as endless.")
    ] = 30.0,
) -> int:
    """Run a program on N ranks, as torchrun would.

    FILE runs as __main__ with torchrun's environment. If it only defines
    functions, each rank calls main(), or its only function. FILE:FUNCTION calls
    that function.

    The program runs in a sandbox. It sees its own folder and Python's packages,
    and works in that folder; what it writes there is gone at the end. If it lies
    in your home folder itself, in / or in /tmp, it sees no other file there. It
    has no network, and its stdin is empty. All ranks together may use 8 GiB of
    memory, write 2 GiB and print 256 MiB. Without a sandbox
    (RANKUP_SANDBOX=none), it reads and writes your real files.
    """
    from grader.classroom import programs, report, running
    from grader.classroom.output import Output

    if trace is not None and trace.suffix not in running.PICTURES:
        raise BadRequest(f"{trace}: a trace is written as {', '.join(running.PICTURES)}")
    if trace is not None and not trace.parent.is_dir():
        raise BadRequest(f"{trace}: no such folder to write the trace to")
    program = programs.named(what, tuple(arguments or ()), module, folder)
    with _host() as host, Output(ranks, not as_json, output, as_json) as heard:
        from grader.ranks.engines import Engines

        engines = Engines(host)
        done = running.run_named(
            engines, program, ranks, engine, network, tuple(fault or ()), seed, cpu, heard, machine
        )
    if trace is not None:
        running.write_whole(trace, done.picture(trace.suffix))
    if as_json:
        told = done.to_json()
        print(json.dumps({**told, "ranks": [{**each, **heard.texts(each["rank"])} for each in told["ranks"]]}))
    else:
        report.print_run(
            done, heard.told(), programs.gone(done.run.written, program), "" if trace is None else f"wrote {trace}"
        )
    return 0 if done.well else 1


@app.command(name="list")
def list_(
    chapter: Annotated[
        str | None, typer.Argument(help="Show this chapter alone, with the titles of its exercises.")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print your progress as JSON.")] = False,
    html: Annotated[Path | None, typer.Option(help="Also write your progress to this HTML file.")] = None,
) -> int:
    """Show your progress, what to do next, and why."""
    from grader.standing import gather, terminal

    if html is not None and not html.parent.is_dir():
        raise BadRequest(f"{html}: no such folder: {html.parent}. Create it first")
    standing = gather.gather()
    if html is not None:
        from grader.classroom import running
        from grader.standing import page

        running.write_whole(html, page.page(standing))
    if as_json:
        print(json.dumps(terminal.to_json(standing)))
    else:
        terminal.show(standing, chapter)
    return 0


@app.command()
def doctor(
    as_json: Annotated[bool, typer.Option("--json", help="Print what was found as JSON.")] = False,
    fix: Annotated[bool, typer.Option("--fix", help="Install with pip what is not here and needs no root.")] = False,
) -> int:
    """Show what this machine can run, and how to get the rest."""
    from grader import doctor
    from grader.classroom import report

    if as_json and fix:
        raise BadRequest("pip's words are no JSON; give --json or --fix, not both")
    findings = doctor.examine()
    if as_json:
        print(json.dumps([dataclasses.asdict(finding) for finding in findings]))
    else:
        report.print_doctor(findings)
    if fix:
        doctor.install(findings)
    return 1 if any(finding.state == "missing" for finding in findings) else 0


@app.command()
def start(
    exercise: EXERCISE,
    fresh: Annotated[bool, typer.Option("--fresh", help="Start over. Your current copy is kept as a backup.")] = False,
    here: Annotated[bool, typer.Option("--here", help="Use work/ of this folder, wherever other copies are.")] = False,
) -> int:
    """Put your own copy of an exercise's notebook next to your others, under work/ (the first time: of this folder)."""
    from grader.classroom import own
    from grader.registry import find

    name = find(exercise).name
    print(says.wrapped(own.next_steps(own.start(name, fresh, here), name), sys.stdout))
    return 0


@app.command()
def hint(
    exercise: EXERCISE,
    again: Annotated[bool, typer.Option("--again", help="Show the hints that you have had.")] = False,
) -> int:
    """Show the next hint for an exercise."""
    from grader.classroom import lesson

    lesson.print_hint(exercise, again)
    return 0


@app.command()
def solution(
    exercise: EXERCISE,
    give_up: Annotated[
        bool, typer.Option("--give-up", help="Show it even though you have not full marks yet.")
    ] = False,
) -> int:
    """Show the solution next to yours, once you have full marks."""
    from grader.classroom import lesson

    lesson.print_solution(exercise, give_up)
    return 0


@app.command()
def card(
    exercise: EXERCISE,
    file: Annotated[Path | None, typer.Argument(help="Where to write it (default: EXERCISE.svg).")] = None,
    by: Annotated[str, typer.Option(help="A name to put on it.")] = "",
) -> int:
    """Draw a card of an exercise with full marks, as SVG."""
    from grader.classroom import card, running

    drawn = card.card(exercise, by)
    file = file or Path(f"{exercise}.svg")
    running.write_whole(file, drawn)
    print(f"wrote {file}")
    return 0


@app.command(context_settings={"allow_extra_args": True, "ignore_unknown_options": True})
def lab(
    options: typer.Context,
    what: Annotated[
        str | None,
        typer.Argument(metavar="[CHAPTER|EXERCISE]", help="Open this chapter (e.g. 06) or your copy of this exercise."),
    ] = None,
) -> int:
    """Open JupyterLab on the course. Other options (--no-browser, --port=9000) go to JupyterLab."""
    from grader.classroom.lab import open_lab

    words = [what, *options.args] if what else []
    what = next((word for word in words if not word.startswith("-")), None)  # options may stand before it
    open_lab(what, [word for word in words if word != what])


@class_app.command("grade")
def grade_class(
    assignment: Annotated[str, typer.Argument(help="The assignment, e.g. 06-collectives.")],
    workers: Annotated[
        int | None, typer.Option(min=1, help="How many submissions at a time (default: one per core).")
    ] = None,
    engine: Annotated[str, typer.Option(help="local (this machine) or ray (a cluster).")] = "local",
    address: Annotated[
        str, typer.Option(help="HOST:PORT of a Ray cluster (default: $RAY_ADDRESS, or the cluster on this machine).")
    ] = "",
    trust: Annotated[bool, typer.Option("--trust-submissions", help="Grade even without full isolation.")] = False,
    force: Annotated[
        bool, typer.Option("--force", help="Grade every submission again, not only new and changed ones.")
    ] = False,
    db: Annotated[str | None, typer.Option(help="Use the gradebook at this URL instead of the class's own.")] = None,
    seed: Annotated[int | None, typer.Option(min=0, help="Draw every student's inputs from this seed.")] = None,
) -> int:
    """Grade a class.

    Scores go to nbgrader's gradebook, and every student gets a feedback page.
    """
    from grader.classroom.batch import run

    return run.grade_class(run.Wanted(assignment, workers, engine, address, trust, force, db, seed))


def _terminate(*_: Any) -> None:
    raise KeyboardInterrupt


def main() -> None:
    """A command that this process does, with exit status."""
    sys.exit(command())


@functools.cache
def parser() -> Any:
    """What reads the command line and does what it says, a command of typer's; the service has it made beforehand."""
    return typer.main.get_command(app)


def command(warm: Warm | None = None) -> int:
    """The exit status of the command that sys.argv asks for, done with a warm host, or with one of its own."""
    global _ahead
    _ahead = warm
    signal.signal(signal.SIGTERM, _terminate)  # end like Ctrl-C: with nothing left behind
    status = 2
    if sys.argv[1:2] == ["help"]:
        sys.argv[1:] = [*sys.argv[2:], "--help"]
    try:
        status = parser()(standalone_mode=False) or 0
    except BadRequest as error:
        print(says.wrapped(f"rankup: {error}", sys.stderr), file=sys.stderr)
    except typer.Exit as error:
        status = error.exit_code
    except typer.Abort:
        status = 130
    except KeyboardInterrupt:
        status = 130
    except (BrokenPipeError, SystemExit):  # the latter is typer's for the former
        with contextlib.suppress(OSError):
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        status = 1
    except Exception as error:
        usage = getattr(error, "format_message", None)  # click's own errors about the command line
        if usage is None:
            raise
        if type(error).__name__ == "NoArgsIsHelpError":
            print(usage())
            status = 0
        else:
            own = sys.argv[1:2] == ["run"] and "No such option" in usage()
            told = f"rankup: {usage()}{' The own arguments of a program go after --.' * own}"
            print(says.wrapped(told, sys.stderr), file=sys.stderr)
    finally:
        if _ahead is not None:
            _ahead.close()
    return status


if __name__ == "__main__":  # python -m grader.cli: without this it would do nothing, and exit with 0
    main()
