"""Programs as people have them for torchrun, run as they are by `rankup run`: on both engines, in both isolations."""

from __future__ import annotations

import re
import tempfile
import textwrap
from collections.abc import Iterator
from pathlib import Path

import pytest
from often import often

from grader.classroom import programs, report, running
from grader.classroom.output import Output
from grader.classroom.running import Ran
from grader.ranks import WORKER
from grader.ranks.engines import Engines
from grader.ranks.program import Place, Program, same_for_all
from grader.sandbox import modes
from grader.sandbox.folder import Folder, too_much
from grader.sandbox.program import MAIN
from grader.sandbox.warm import Warm
from grader.submission import BadRequest, Submission

ROOT = Path(__file__).resolve().parents[2]
START = "import os, sys, torch, torch.distributed as dist\n"

TRAINING = """
import argparse, json
from torch.nn.parallel import DistributedDataParallel
from tools import scale

def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--epochs", type=int, default=1)
    parser.add_argument("--save", default="snapshot.pt")
    args = parser.parse_args()
    dist.init_process_group("gloo")
    rate = json.load(open("config.json"))["rate"]
    assert rate == json.load(open(os.path.join(os.path.dirname(__file__), "config.json")))["rate"]
    model = DistributedDataParallel(torch.nn.Linear(4, 1))
    optimizer = torch.optim.SGD(model.parameters(), lr=rate)
    for epoch in range(args.epochs):
        model(scale(torch.ones(8, 4))).pow(2).mean().backward()
        optimizer.step()
        print("epoch", epoch)
    if dist.get_rank() == 0:
        torch.save(model.module.state_dict(), args.save)
    dist.barrier()
    torch.load(args.save)
    dist.destroy_process_group()

if __name__ == "__main__":
    main()
"""
SPAWNING = """
import torch.multiprocessing as mp

def work(rank, world):
    os.environ.update(MASTER_ADDR="localhost", MASTER_PORT="29512")
    dist.init_process_group("gloo", rank=rank, world_size=world)
    total = torch.ones(1)
    dist.all_reduce(total)
    print("sum", total.item())
    dist.destroy_process_group()

if __name__ == "__main__":
    mp.spawn(work, args=(2,), nprocs=2)
"""
LOADING = """
from torch.utils.data import DataLoader, TensorDataset

if __name__ == "__main__":
    dist.init_process_group("gloo")
    loader = DataLoader(TensorDataset(torch.arange(8.0)), batch_size=4, num_workers=1)
    total = sum(batch.sum() for batch, in loader)
    dist.all_reduce(total)
    print(total.item())
"""

# the files next to it, what of it runs, its arguments, and what each rank prints, or part of what is said of its end
PROGRAMS: dict[str, tuple[dict[str, str], str, tuple[str, ...], str | list[str]]] = {
    "a training loop with argparse, a module, a data file and a checkpoint": (
        {"p.py": START + TRAINING, "tools.py": "def scale(x): return x / 2", "config.json": '{"rate": 0.1}'},
        "p.py", ("--epochs", "2", "--save", "my.pt"), ["epoch 0\nepoch 1\n"] * 2,
    ),
    "statements at the top": (
        {"p.py": START + "dist.init_process_group()\nx = torch.ones(1)\ndist.all_reduce(x)\nprint(x.item(), __name__)"},
        "p.py", (), ["2.0 __main__\n"] * 2,
    ),
    "torchrun's environment": (
        {"p.py": START + "names = 'RANK WORLD_SIZE LOCAL_RANK LOCAL_WORLD_SIZE MASTER_ADDR GROUP_RANK ROLE_RANK'\n"
                 "print(*map(os.environ.get, names.split()), os.environ['MASTER_PORT'].isdigit())\n"},
        "p.py", (), ["0 2 0 2 localhost 0 0 True\n", "1 2 1 2 localhost 0 1 True\n"],
    ),
    "a module that keeps its rank to itself": (
        {"p.py": START + "import own\nown.rank = dist.get_rank()\ndist.barrier()\nprint(own.rank, own.drawn())\n",
         "own.py": "import os\nasked = os.environ['RANK']\ndef drawn(): return asked, os.environ['RANK']\n"},
        "p.py", (), ["0 ('0', '0')\n", "1 ('1', '1')\n"],
    ),
    "python -m, with relative imports": (
        {"pkg/__init__.py": "", "pkg/p.py": START + "from .beside import word\nfrom pkg.beside import word as same\n"
                                            "if __name__ == '__main__': print(word, same, sys.argv[1:], __package__)\n",
         "pkg/beside.py": "word = open('pkg/word.txt').read()", "pkg/word.txt": "ja"},
        "-m pkg.p", ("-x", "1"), ["ja ja ['-x', '1'] pkg\n"] * 2,
    ),
    "what takes a second to import is there before a program that uses it": (
        {"p.py": START + "print('torch._dynamo' in sys.modules)\n"
                         "from torch.nn.parallel import DistributedDataParallel\n"},
        "p.py", (), ["True\n"] * 2,
    ),
    "a function, with a module beside it": (
        {"p.py": "import tools\ndef f():\n    print(tools.word, __name__)\n", "tools.py": "word = 'ja'"},
        "p.py:f", (), ["ja submission\n"] * 2,
    ),
    "only definitions, so main() is called": ({"p.py": "x = 1\ndef main():\n    print(x)\n"}, "p.py", (), ["1\n"] * 2),
    "an exit that says that all is well": ({"p.py": "import sys\nprint(1)\nsys.exit(0)\n"}, "p.py", (), ["1\n"] * 2),
    "wrong arguments": (
        {"p.py": "import argparse\nargparse.ArgumentParser('me').parse_args()\n"}, "p.py", ("--no",),
        "Rank 0 of 2 raised SystemExit: 2 (line 2",
    ),
    "processes of its own": ({"p.py": START + SPAWNING}, "p.py", (), ["sum 2.0\nsum 2.0\n"]),
    "workers that load data": ({"p.py": START + LOADING}, "p.py", (), ["56.0\n"] * 2),
    "a script beside it, and a process": (
        {"p.py": "import subprocess, sys\nfor what in (['sh', 'hi.sh'], [sys.executable, 'child.py']):\n"
                 "    print(subprocess.run(what, capture_output=True, text=True).stdout)",
         "hi.sh": "echo hello", "child.py": "import tools\nprint(tools.x)", "tools.py": "x = 1"},
        "p.py", (), ["hello\n\n1\n\n"] * 2,
    ),
    "stdin": ({"p.py": "input()\n"}, "p.py", (), "EOFError: EOF when reading a line (line 1: `input()`)"),
    "a file that is not there": ({"p.py": "open('no.csv')\n"}, "p.py", (), "No such file or directory: 'no.csv'"),
}  # fmt: skip
OFTEN = ("statements at the top", "a module that keeps its rank to itself")
NONE = pytest.param("none", marks=[] if modes.why_not("full") else pytest.mark.heavy)


@pytest.fixture(scope="module", params=["full", NONE])
def engines(request: pytest.FixtureRequest) -> Iterator[Engines]:
    mode: modes.Mode = request.param
    if why := modes.why_not(mode):
        pytest.skip(f"no {mode} isolation on this machine: {why}")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("RANKUP_SANDBOX", mode)
        made = Engines(Warm(WORKER))
    yield made
    made.close()


def written(folder: Path, files: dict[str, str]) -> None:
    for name, text in files.items():
        (folder / name).parent.mkdir(exist_ok=True)
        (folder / name).write_text(textwrap.dedent(text))


def ran(
    engines: Engines, what: str, engine: str = "sim", ranks: int = 2, given: tuple[str, ...] = ()
) -> tuple[Ran, Output]:
    with Output(ranks, shown=False, kept=True) as output:
        program = programs.named(what.removeprefix("-m "), given, what.startswith("-m "))
        return running.run_named(engines, program, ranks, engine, seed=3, cpu_seconds=60, output=output), output


@pytest.mark.parametrize("engine", often(["sim", "gloo"], "sim", "gloo"))
@pytest.mark.parametrize(("files", "what", "given", "expected"), often(PROGRAMS, *OFTEN))
def test_a_program_runs_as_torchrun_runs_it(
    files: dict[str, str], what: str, given: tuple[str, ...], expected: str | list[str], engine: str, engines: Engines,
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    written(tmp_path, files)
    monkeypatch.chdir(tmp_path)
    ranks = len(expected) if isinstance(expected, list) else 2
    done, output = ran(engines, what, engine, ranks, given)
    if isinstance(expected, str):
        assert expected in done.diagnoses[0].message
        return
    assert done.well, (done.diagnoses, done.run.stderr)
    assert [output.texts(rank)["stdout"] for rank in range(ranks)] == expected
    sandboxed = "--save" in given and engines.warm.mode == "full"
    assert done.run.written == (("my.pt",) if sandboxed else ())
    left = {str(path.relative_to(tmp_path)) for path in tmp_path.rglob("*") if path.is_file()}
    assert left - files.keys() == ({"my.pt"} if "--save" in given and engines.warm.mode == "none" else set())


LOOKING = """
def tried(path):
    try:
        return sorted(os.listdir(path))
    except OSError as error:
        return type(error).__name__

def main():
    open("config.json", "a").write("more")
    os.makedirs("new/folder")
    return [tried("."), *map(tried, {paths!r})]
"""


def test_a_box_shows_the_programs_folder_and_nothing_around_it(
    engines: Engines, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if engines.warm.mode != "full":
        pytest.skip("only full isolation promises this")
    own = tmp_path / "own"
    written(own.parent, {"own/p.py": START + LOOKING.format(paths=[str(own), str(tmp_path), "/root", "/home", "/"])})
    written(own, {"config.json": "{}", "deep/x.txt": ""})
    done, _ = ran(engines, str(own / "p.py"), ranks=1)
    assert done.well, done.diagnoses
    mine, same, *others = done.run.calls[0].returned[0]
    assert mine == same == ["config.json", "deep", "new", "p.py"]
    assert done.run.written == ("config.json", "new/")
    assert set(others) <= {"PermissionError", "FileNotFoundError"}
    assert ((own / "config.json").read_text(), sorted(each.name for each in own.iterdir())) == (
        "{}", ["config.json", "deep", "p.py"],
    )  # fmt: skip
    graded = Program.of((own / "p.py").read_text().replace("open(", "#").replace("os.makedirs", "#"), "p.py", "main")
    assert own.name not in str(engines.run("sim", graded, 1, [same_for_all(1)]).calls[0].returned)
    assert "PermissionError" in str(engines.run("gloo", graded, 2, [same_for_all(2)]).calls[0].returned[0][1:])


@pytest.mark.heavy
def test_no_answer_is_shown_where_a_program_lies_next_to_them(engines: Engines) -> None:
    if engines.warm.mode != "full":
        pytest.skip("only full isolation promises this")
    asked = ["solutions", "tests", ".git", "grader", "grader/ranks", "grader/exercises", "grader/classroom"]
    source = START + LOOKING.format(paths=asked).replace("open(", "#")
    shown = running.Wanted(Submission(source, "p.py"), "main", 1, place=Place(
        str(ROOT / "p.py"), str(ROOT), (), None, Folder.of(ROOT)))  # fmt: skip
    _, solutions, tests, git, grader, ranks, *exercises = running.run(engines, shown).run.calls[0].returned[0]
    assert solutions == tests == []
    assert git in ([], "NotADirectoryError")  # of a worktree it is a file, with a path
    assert "exercises" not in grader
    assert "program.py" in ranks
    assert exercises == ["FileNotFoundError"] * 2


TOO_MUCH = {
    "/": "is the whole machine", "/home/ann": "is your home folder", "/home": "holds your home folder",
    "/home/ann/.ssh": "is where programs keep settings and keys", "/home/ann/.config/x": "is where programs keep",
    "/tmp": "is shared with other programs", "/usr/share/x": "is part of the system (/usr)", "/etc": "is part of",
    "/proc/self/fd": "is part of", "/home/ann/work": "", "/home/ann/work/.hidden": "", "/tmp/x": "", "/srv/x": "",
}  # fmt: skip


@pytest.mark.parametrize(("path", "why"), TOO_MUCH.items(), ids=TOO_MUCH.keys())
def test_folders_that_hold_more_than_a_program(path: str, why: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", "/home/ann")
    monkeypatch.setattr(tempfile, "tempdir", "/tmp")
    found = too_much(Path(path))
    assert found.startswith(why)
    assert bool(found) == bool(why)


# a file's text, the function that is named, and what runs, or what is said of it
MEANT = {
    "main and its guard": ("def main(): pass\nif __name__ == '__main__':\n    main()\n", None, MAIN),
    "main that is called": ("def main(): pass\nmain()\n", None, MAIN),
    "main that nothing calls": ("import torch\ntorch.manual_seed(1)\ndef main(): pass\n", None, "main"),
    "statements": ("print(1)\ndef f(): pass\n", None, MAIN),
    "imports alone": ("import app\n", None, MAIN),
    "main that takes arguments, and its guard": ("def main(x): pass\nif __name__ == '__main__': main(1)\n", None, MAIN),
    "one function": ('"""Doc."""\nX = 1\ndef f(a=1): pass\ndef g(b): pass\n', None, "f"),
    "two functions": (
        "def f(): pass\ndef g(): pass\n",
        None,
        "as p.py:FUNCTION; choose from f, g",
    ),
    "one by name": ("def step(): pass\nstep()\n", "step", "step"),
    "a name that is nearly one": ("def step(): pass\n", "stepp", "defines no function stepp; did you mean p.py:step?"),
    "a name that is none": ("x = 1\n", "step", "p.py defines no function step"),
    "a name that is imported": ("from tools import step\n", "step", "step"),
    "a name that may be": ("from tools import *\n", "step", "step"),
    "one that takes arguments": ("def f(x, *, y): pass\n", "f", "f(x, y) takes arguments"),
}


@pytest.mark.parametrize(("text", "name", "meant"), MEANT.values(), ids=MEANT.keys())
def test_what_runs_of_a_file(text: str, name: str | None, meant: str) -> None:
    if meant in (MAIN, name, "main", "f"):
        assert programs.function_of(Submission(text, "p.py"), name) == meant
        return
    with pytest.raises(BadRequest, match=re.escape(meant)):
        programs.function_of(Submission(text, "p.py"), name)


def test_output_is_whole_live_and_in_a_file_for_each_rank(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with Output(2, shown=True) as output:
        output(0, "stdout", b"a\nb")
        output(1, "stderr", "ä\n".encode())
        assert capsys.readouterr() == ("[rank0] a\n", "[rank1] ä\n")
        output(0, "stdout", b" c\n 5%|..\r 9%|..\r\x1b[31mlast")
    assert capsys.readouterr().out == "[rank0] b c\n[rank0] \N{REPLACEMENT CHARACTER}[31mlast\n"
    (tmp_path / "rank-7.txt").write_text("of an earlier run")
    with Output(2, shown=True, folder=tmp_path, kept=True) as output:
        for _ in range(500):
            output(1, "stdout", b"line\r\n")
        output.begin_anew("It starts over.")
        output(1, "stderr", b"line\r\n" * 3)
    assert sorted((path.name, path.read_bytes()) for path in tmp_path.iterdir()) == [
        ("rank-0.txt", b""), ("rank-1.txt", b"line\r\n" * 3),
    ]  # fmt: skip
    assert output.texts(1) == {"stdout": "", "stderr": "line\r\n" * 3}
    assert capsys.readouterr() == ("", "It starts over.\n")


@pytest.mark.parametrize("engine", often(["sim", "gloo"], "sim"))
def test_a_send_that_never_ended_is_not_counted_and_equal_ranks_are_one_row(
    engine: str, engines: Engines, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    written(tmp_path, {"p.py": START + "x = torch.ones(9)\ndist.all_reduce(x)\ndist.send(x, dist.get_rank() ^ 1)\n"})
    done, _ = ran(engines, str(tmp_path / "p.py"), engine, 4)
    assert (done.run.ending, {each["bytes_sent"] for each in done.ranks()}) == ("deadlocked", {54})
    report.print_run(done)
    assert capsys.readouterr().out.splitlines()[-1].split() == ["0-3", "54", "0", "not", "finished"]
