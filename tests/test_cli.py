"""The console script as people use it: exit status, one sentence for bad input, nothing left behind."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import psutil
import pytest
from often import often

from grader import cli, doctor, progress, submission
from grader.grading import grade
from grader.ranks.engines import Engines
from grader.registry import find
from tests import processes

ROOT = Path(__file__).parent.parent
RANKUP = str(Path(sys.executable).parent / "rankup")
RIGHT = ROOT / "demo" / "submissions" / "ada.py"


def rankup(*arguments: str | Path, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [RANKUP, *map(str, arguments)], capture_output=True, text=True, env={**os.environ, **environment}, timeout=120
    )


BAD_REQUESTS = {
    "no such file": (["grade", "ring_all_reduce", "nowhere.py"], None, "no such file"),
    "not a notebook": (["grade", "ring_all_reduce", "a.ipynb"], b"[1]", "is not a notebook"),
    "broken JSON": (["grade", "ring_all_reduce", "a.ipynb"], b'{"cells": [', "broken JSON"),
    "another kind of file": (["grade", "ring_all_reduce", "a.txt"], b"", "a .py or an .ipynb file"),
    "a folder": (["grade", "ring_all_reduce", "."], None, "a .py or an .ipynb file"),
    "no such exercise": (["grade", "bubble_sort", "a.py"], b"", "no exercise is called 'bubble_sort'"),
    "a private module as exercise": (["grade", "_sums", "a.py"], b"", "no exercise is called"),
    "a path as exercise": (["grade", "../cli", "a.py"], b"", "no exercise is called"),
    "no such engine": (["grade", "ring_all_reduce", "a.py", "--engine", "mpi"], b"", "no engine is called 'mpi'"),
    "an engine that is not here": (
        ["grade", "ring_all_reduce", "a.py", "--engine", "nccl"],
        b"",
        "nccl needs a GPU for each rank",
    ),
    "a seed that is none": (["grade", "ring_all_reduce", "a.py", "--seed", "x"], b"", "seed"),
    "a page nowhere": (["grade", "ring_all_reduce", "a.py", "--html", "no/such/a.html"], b"", "no such folder"),
    "a device that is not here": (
        ["grade", "ring_all_reduce", "a.py", "--device", "cuda"],
        b"x = 1",
        "this machine has no NVIDIA GPU",
    ),
    "a run of nothing": (["run", "no.py", "--ranks", "2"], None, "no such file"),
    "an option of the program's own": (["run", "--epochs", "a.py"], b"", "The own arguments of a program go after --."),
    "a network without units": (
        ["run", "--ranks=2", "a.py", "--network", "alpha=10"],
        b"def main(): pass",
        "say 10s, 10ms or 10us",
    ),
    "a module that is not here": (["run", "-m", "pkg.a"], None, "there is neither pkg/a.py nor pkg/a/__main__.py"),
    "all that there is": (["run", "--ranks=2", "a.py", "--folder", "/"], b"def main(): pass", "/ is the whole machine"),
    "a trace of no kind": (["run", "--ranks=2", "a.py", "--trace", "a.gif"], b"def main(): pass", ".svg, .html, .json"),
    "a trace nowhere": (["run", "--ranks=2", "a.py", "--trace", "no/a.svg"], b"def main(): pass", "no such folder"),
    "a network that is none": (["run", "--ranks=2", "a.py", "--network", "lan"], b"def main(): pass", "'lan'"),
    "a machine that is none": (
        ["run", "--ranks=2", "a.py", "--machine", "lan"],
        b"def main(): pass",
        "write 8xh100 or nvl72",
    ),
    "a fault that is none": (["run", "--ranks=2", "a.py", "--fault", "burn:1"], b"def main(): pass", "'burn'"),
    "a fault on real processes": (
        ["run", "--ranks=2", "a.py", "--fault", "kill:1@op=1", "--engine", "gloo"],
        b"def main(): pass",
        "can only be simulated",
    ),
    "too many real ranks": (
        ["run", "--ranks=17", "a.py", "--engine", "gloo"],
        b"def main(): pass",
        "at most 16 ranks",
    ),
    "a function with parameters": (
        ["run", "--ranks=2", "a.py"],
        b"def main(x): pass",
        "main(x) takes arguments",
    ),
    "two functions": (["run", "--ranks=2", "a.py"], b"def f(): pass\ndef g(): pass", "say which function to run"),
    "nothing to grade": (["grade"], None, "Missing argument"),
    "no copy to grade": (["grade", "ring_all_reduce"], None, "`rankup start ring_all_reduce` makes one"),
    "a file of nothing known": (["grade", "a.py", "x.py"], b"", "no exercise is called 'a.py'"),
    "a file that does not say": (["grade", "--json", "a.py"], b"", "does not say which exercise it is of"),
    "a name in capitals": (["grade", "RING_ALLREDUCE", "a.py"], b"", "did you mean ring_all_reduce?"),
    "no such check": (["grade", "ring_all_reduce", "a.py", "--check", "max"], b"", "it has sum, "),
    "nothing has failed": (["grade", "ring_all_reduce", "a.py", "--only-failed"], b"", "leave --only-failed out"),
    "a file too large": (["grade", "ring_all_reduce", "a.py"], b" " * 4_100_000, "has 4.1 MB, more than 4 MB"),
    "a notebook of another": (
        ["grade", "ring_all_reduce", "a.ipynb"],
        b'{"cells": [], "metadata": {"rankup": {"exercise": "ddp"}}}',
        "a.ipynb is the notebook of ddp. To grade it: rankup grade ddp a.ipynb",
    ),
    "two forms at once": (["doctor", "--json", "--fix"], None, "not both"),
    "no such command": (["grill"], None, "No such command"),
    "no such deck": (["quiz", "99"], None, "99"),
    "no such deck to export": (["cards", "export", "--anki", "a.apkg", "--deck", "99"], None, "99"),
    "no name of a package": (["cards", "export", "--anki", "a.zip"], None, "end in .apkg"),
    "a package in no folder": (["cards", "export", "--anki", "x/a.apkg"], None, "x/a.apkg: cannot be written"),
    "no such chapter": (["lab", "99"], None, "no chapter"),
}


@pytest.mark.parametrize(("arguments", "data", "words"), BAD_REQUESTS.values(), ids=BAD_REQUESTS.keys())
def test_a_bad_request_is_one_sentence_and_status_2(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], arguments: list[str],
    data: bytes | None, words: str,
) -> None:  # fmt: skip
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("RANKUP_DATA", str(tmp_path / "data"))
    monkeypatch.setattr(sys, "argv", ["rankup", *arguments])
    monkeypatch.setattr(signal, "signal", lambda *_: None)
    if data is not None:
        Path(arguments[2]).write_bytes(data)
    with pytest.raises(SystemExit) as ended:
        cli.main()
    said = capsys.readouterr()
    assert (ended.value.code, said.out) == (2, "")
    assert said.err.count("\n") == 1, said.err
    assert words in said.err


@pytest.mark.parametrize("name", ["broken JSON", "an option of the program's own"])
def test_a_bad_request_in_a_process_of_its_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    arguments, data, words = BAD_REQUESTS[name]
    monkeypatch.chdir(tmp_path)
    if data is not None:
        Path(arguments[2]).write_bytes(data)
    done = rankup(*arguments)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.count("\n") == 1, done.stderr
    assert words in done.stderr
    assert "Traceback" not in done.stderr


SUBMISSIONS = {
    "a syntax error": ("a.py", b"def ring_all_reduce(tensor)\n    pass\n", "syntax_error"),
    "a missing function": ("a.py", b"import torch\n", "missing_function"),
    "a wrong signature": ("a.py", b"def ring_all_reduce(tensor, group): pass\n", "missing_function"),
    "not a function": ("a.py", b"ring_all_reduce = 3\n", "missing_function"),
    "an empty file": ("a.py", b"", "missing_function"),
    "no UTF-8": ("a.py", b"def ring_all_reduce(tensor):\n    x = '\xff'\n", "syntax_error"),
    "a null byte": ("a.py", b"x = 1\0", "syntax_error"),
    "an import that fails": ("a.py", b"import no_such_module\n", "crash"),
    "an empty notebook": ("a.ipynb", b'{"cells": []}', "missing_function"),
}


@pytest.mark.parametrize(("name", "data", "kind"), SUBMISSIONS.values(), ids=SUBMISSIONS.keys())
def test_what_cannot_run_gets_a_verdict_of_0_points(
    tmp_path: Path, engines: Engines, name: str, data: bytes, kind: str
) -> None:
    path = tmp_path / name
    path.write_bytes(data)
    exercise = find("ring_all_reduce")
    verdict = grade(exercise, submission.read(path, exercise.function_names), engines)
    assert (verdict.points, verdict.passed) == (0, False)
    assert {check.diagnosis and check.diagnosis.kind for check in verdict.checks} == {kind}


def test_a_verdict_of_0_points_is_status_1(tmp_path: Path) -> None:
    path = tmp_path / "a.py"
    path.write_text("import torch\n")
    done = rankup("grade", "ring_all_reduce", path, "--json")
    assert (done.returncode, json.loads(done.stdout)["points"]) == (1, 0), done.stderr


@pytest.mark.heavy
def test_two_gradings_at_once_of_the_same_file_both_finish_right() -> None:
    command = [RANKUP, "grade", "ring_all_reduce", str(RIGHT), "--json", "--seed", "5"]
    both = [subprocess.Popen(command, stdout=subprocess.PIPE, text=True) for _ in range(2)]
    verdicts = [json.loads(process.communicate(timeout=120)[0]) for process in both]
    assert [verdict["passed"] for verdict in verdicts] == [True, True]
    assert [process.returncode for process in both] == [0, 0]
    for verdict in verdicts:
        del verdict["seconds"]
    assert verdicts[0] == verdicts[1]


def test_the_report_for_people_and_the_page(tmp_path: Path) -> None:
    page = tmp_path / "verdict.html"
    done = rankup("grade", "ring_all_reduce", ROOT / "demo/submissions/dmitri.py", "--html", page, NO_COLOR="1")
    assert done.returncode == 1
    assert "0 of 20 points" in done.stdout
    assert "cycle of 2 ranks" in " ".join(done.stdout.split())
    assert "<svg" in page.read_text()


INTERRUPTS = {"Ctrl-C": signal.SIGINT, "SIGTERM": signal.SIGTERM, "SIGKILL": signal.SIGKILL}


@pytest.mark.heavy
@pytest.mark.parametrize("how", INTERRUPTS.values(), ids=INTERRUPTS.keys())
def test_an_interrupted_grading_leaves_no_process_and_no_file(tmp_path: Path, how: signal.Signals) -> None:
    """Interrupted while a rank runs for ever: it computes, below a keeper, below the warm process."""
    temporary = tmp_path / "tmp"
    temporary.mkdir()
    path = tmp_path / "a.py"
    path.write_text("def ring_all_reduce(tensor):\n    while True: pass\n")
    environment = {**os.environ, "TMPDIR": str(temporary)}
    grading = subprocess.Popen([RANKUP, "grade", "ring_all_reduce", str(path)], env=environment, stdout=subprocess.PIPE)
    while not processes.computing(grading.pid):
        assert grading.poll() is None, "the grading ended before it was interrupted"
    tree = psutil.Process(grading.pid).children(recursive=True)
    grading.send_signal(how)
    grading.communicate(timeout=30)
    _, alive = psutil.wait_procs(tree, timeout=15)
    assert not alive
    assert list(temporary.iterdir()) == []


@pytest.mark.heavy
def test_list_shows_chapters_exercises_and_your_best(tmp_path: Path) -> None:
    before = rankup("list", RANKUP_DATA=str(tmp_path), COLUMNS="120").stdout
    rankup("grade", "ring_all_reduce", RIGHT, RANKUP_DATA=str(tmp_path))
    after = rankup("list", RANKUP_DATA=str(tmp_path), COLUMNS="120").stdout
    assert "Collectives and all-reduce" in before
    line = next(line for line in after.splitlines() if "ring_all_reduce" in line)
    assert line.split()[-4:] == ["20/20", "points", "1", "try"]


@pytest.mark.heavy
@pytest.mark.parametrize(("learner", "status"), [("ada", 0), ("dmitri", 1)])
def test_grading_works_where_progress_cannot_be_kept(tmp_path: Path, learner: str, status: int) -> None:
    (tmp_path / "file").write_text("")
    file = RIGHT.with_stem(learner)
    done = rankup("grade", "ring_all_reduce", file, RANKUP_DATA=str(tmp_path / "file" / "x"))
    assert (done.returncode, done.stderr) == (status, "")


def test_doctor_names_everything_that_is_needed() -> None:
    done = rankup("doctor", "--json")
    assert done.returncode == 0, done.stdout
    found = {each["name"]: each["state"] for each in json.loads(done.stdout)}
    assert {found[name] for name in ("python", "torch", "nbgrader", "gloo")} == {"ok"}
    assert "isolation" in found


def test_doctor_installs_what_needs_no_root(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    asked: list[list[str]] = []

    def run(command: list[str], check: bool) -> subprocess.CompletedProcess[str]:
        asked.append(command)
        return subprocess.CompletedProcess(command, len(asked) - 1)

    monkeypatch.setattr(subprocess, "run", run)
    here, root = doctor.Finding("torch", "ok", "", "", ("torch",)), doctor.Finding("etcd", "optional", "no", "apt-get")
    doctor.install([here, root])
    assert not asked
    gone = doctor.Finding("ray", "optional", "not installed", "", ("ray",))
    doctor.install([here, root, gone])
    assert [command[1:4] for command in asked] == [["-m", "pip", "install"]]
    [package] = asked[0][4:]
    assert package.partition("<")[0] == "ray[default,serve,train,tune]", "all that it is needed for; torch is here"
    assert f"{sys.executable} -m pip install '{package}'" in capsys.readouterr().out
    with pytest.raises(submission.BadRequest, match="pip could not install"):
        doctor.install([gone])


def test_start_copies_the_notebook_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """And an untouched copy is neither graded nor a try."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("RANKUP_DATA", str(tmp_path))
    assert rankup("start", "ring_all_reduce").returncode == 0
    assert Path("work/06-collectives/ring_all_reduce.ipynb").exists()
    again = rankup("start", "ring_all_reduce")
    assert (again.returncode, again.stderr.count("\n")) == (2, 1)
    graded = rankup("grade", "ring_all_reduce")
    assert (graded.returncode, graded.stderr) == (1, "")
    assert (
        graded.stdout
        == "work/06-collectives/ring_all_reduce.ipynb: ring_all_reduce is not written yet. Nothing was graded.\n"
    )
    assert not progress.best()


def test_some_checks_can_be_graded_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Those that are named, or that failed last; neither is a try."""
    monkeypatch.setenv("RANKUP_DATA", str(tmp_path))
    path = tmp_path / "cost_model.py"
    path.write_text("def predict(): pass\n")
    done = rankup("grade", path, "--check", "send", "--check", "fit")
    assert done.returncode == 1, done.stderr
    assert "Graded: fit, send. Grade all checks for your points." in done.stdout
    assert progress.failed("cost_model") == {"fit", "send"}
    again = json.loads(rankup("grade", path, "--only-failed", "--json").stdout)
    assert [check["name"] for check in again["checks"]] == ["fit", "send"]
    assert not progress.best()


@pytest.mark.parametrize(("words", "begins"), [("rankup grade ring_al", "ring_all_reduce"), ("rankup gra", "grade")])
def test_the_shell_completes_commands_and_exercises(words: str, begins: str) -> None:
    at = str(len(words.split()) - 1)
    done = rankup(_RANKUP_COMPLETE="complete_bash", COMP_WORDS=words, COMP_CWORD=at)
    assert (done.stdout.split(), done.stderr) == ([begins], "")


@pytest.mark.parametrize("asked", ["--version", "-h"])
def test_it_says_what_it_is(asked: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "argv", ["rankup", asked])
    monkeypatch.setattr(signal, "signal", lambda *_: None)
    with pytest.raises(SystemExit) as ended:
        cli.main()
    assert (ended.value.code, "rankup" in capsys.readouterr().out) == (0, True)


def test_the_courses_cards_are_fit_to_be_learnt_from() -> None:
    done = rankup("cards", "check")
    assert done.returncode == 0, done.stdout
    cards = json.loads(rankup("cards", "list", "--json").stdout)
    assert set(cards[0]) == {"id", "deck", "topic", "level", "kind", "question"}
    assert len(cards) >= 20


def test_a_quiz_answered_through_a_pipe_is_kept(tmp_path: Path) -> None:
    environment = {**os.environ, "RANKUP_DATA": str(tmp_path)}
    done = subprocess.run(
        [RANKUP, "quiz", "06", "--new", "1"], input="\n3\nq\n", capture_output=True, text=True, env=environment
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert list(tmp_path.glob("*.sqlite3")), "no progress was written"


PROGRAM = b"""import torch
import torch.distributed as dist


def main():
    x = torch.ones(6) * dist.get_rank()
    dist.all_reduce(x)
    print(int(x[0]))


def hang():
    dist.recv(torch.zeros(1), (dist.get_rank() + 1) % dist.get_world_size())


def script():
    dist.init_process_group("gloo")
    dist.barrier()
    dist.destroy_process_group()
"""


@pytest.fixture
def program(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    Path("a.py").write_bytes(PROGRAM)
    return tmp_path


@pytest.mark.parametrize("engine", often(["sim", "gloo"], "sim"))
def test_run_tells_what_every_rank_sent(program: Path, engine: str) -> None:
    done = rankup("run", "a.py", "--ranks", "3", "--engine", engine, "--seed", "5", "--json")
    assert done.returncode == 0, done.stderr
    told = json.loads(done.stdout)
    assert (told["ending"], told["diagnoses"], told["seed"]) == ("finished", [], 5)
    assert [rank["bytes_sent"] for rank in told["ranks"]] == [2 * 2 * 24 // 3] * 3
    assert (told["virtual_seconds"] is None) == (engine == "gloo")


@pytest.mark.heavy
def test_run_measures_virtual_time_on_a_network(program: Path) -> None:
    done = rankup("run", "a.py", "--ranks", "4", "--network", "alpha=1ms,beta=1ms", "--json")
    assert json.loads(done.stdout)["virtual_seconds"] == pytest.approx(2 * 3 * (1e-3 + 24 / 4 * 1e-3))


@pytest.mark.parametrize("engine", often(["sim", "gloo"], "sim"))
def test_run_of_a_function_that_hangs_is_status_1(program: Path, engine: str) -> None:
    done = rankup("run", "a.py:hang", "--ranks", "3", "--engine", engine, "--json")
    told = json.loads(done.stdout)
    assert (done.returncode, told["ending"], told["virtual_seconds"]) == (1, "deadlocked", None)
    assert told["diagnoses"][0]["line"] == 12


@pytest.mark.heavy
def test_run_takes_a_program_for_torchrun_as_it_is(program: Path) -> None:
    done = rankup("run", "a.py:script", "--ranks", "2")
    assert done.returncode == 0, done.stdout
    Path("b.py").write_text("import sys\nprint(sys.argv[1:], open('a.py').readline())\n")
    done = rankup("run", "b.py", "--output", "logs", "--json", "--", "--epochs", "3")
    told = [rank["stdout"] for rank in json.loads(done.stdout)["ranks"]]
    assert told == [path.read_text() for path in sorted(Path("logs").iterdir())] == [told[0]] * 4
    assert told[0].startswith("['--epochs', '3'] import")


DRAWN = {"svg": ("svg", "<svg"), "html": ("html", "<!doctype html>"), "json": ("json", "{")}


@pytest.mark.heavy
@pytest.mark.parametrize(("suffix", "begins"), DRAWN.values(), ids=DRAWN.keys())
def test_run_draws_what_happened(program: Path, suffix: str, begins: str) -> None:
    done = rankup("run", "a.py:hang", "--ranks", "3", "--trace", f"out.{suffix}")
    assert done.returncode == 1
    assert Path(f"out.{suffix}").read_text().lower().startswith(begins)
    assert sorted(path.name for path in program.iterdir()) == ["a.py", f"out.{suffix}"]


OWN_PROCESS = """
import asyncio, atexit, builtins, logging, multiprocessing, os, sys
import numpy, torch, torch.distributed as dist
dist.init_process_group("gloo"); r = dist.get_rank()
own, out, argv = builtins.print, sys.stdout, sys.argv
out.reconfigure(line_buffering=True); out.writelines(["written\\n"])
builtins.print = lambda *words, force=False: own(*words) if r == 0 or force else None
logging.basicConfig(level=30 - 10 * r, format=f"{r}: %(message)s", stream=sys.stdout)
log = logging.getLogger("own"); log.addHandler(logging.StreamHandler(sys.stdout))
numpy.random.seed(r); os.environ["MINE"] = sys.argv[0] = str(r)
torch.set_default_dtype((torch.float32, torch.float64)[r])
dist.barrier()
print("only rank 0"); print("all", force=True)
logging.info("info"); log.warning("own")
print(os.environ["MINE"], sys.argv[0], torch.ones(1).dtype, numpy.random.randint(1000), force=True)
asyncio.run(asyncio.sleep(0.01)); dist.barrier()
if r == 1: sys.stdout = open(os.devnull, "w")
dist.barrier()
print("not of rank 1", force=True)
atexit.register(own, "end of", r, dist.is_initialized(), file=out)
atexit.register(dist.barrier)
with multiprocessing.get_context("fork").Pool(2) as pool: assert pool.map(abs, [-1, 2]) == [1, 2]
sys.exit()
"""


@pytest.mark.heavy
@pytest.mark.parametrize("engine", ["sim", "gloo"])
def test_each_rank_has_the_process_to_itself(program: Path, engine: str) -> None:
    Path("a.py").write_text(OWN_PROCESS)
    done = json.loads(rankup("run", "a.py", "--ranks", "2", "--engine", engine, "--json").stdout)
    assert [rank["stdout"].split("\n") for rank in done["ranks"]] == [
        [
            "written",
            "only rank 0",
            "all",
            "own",
            "0: own",
            "0 0 torch.float32 684",
            "not of rank 1",
            "end of 0 True",
            "",
        ],
        ["written", "all", "1: info", "own", "1: own", "1 1 torch.float64 37", "end of 1 True", ""],
    ]


NOT_SIMULATED = {
    "a thread": "import threading; t = threading.Thread(target=dist.barrier); t.start(); t.join()",
    "a store": "s = dist.distributed_c10d._get_default_store(); s.set(str(r), 'x'); s.get(str(1 - r))",
    "a store of its own": "s = dist.FileStore('store', 2); s.set(str(r), 'x'); s.get(str(1 - r))",
    "signals": "import signal; signal.signal(signal.SIGTERM, lambda *_: None)",
    "a sparse tensor": "dist.all_reduce(torch.ones(2).to_sparse())",
    "a profiler": "with torch.profiler.profile(): dist.barrier()",
}


@pytest.mark.heavy
@pytest.mark.parametrize("body", NOT_SIMULATED.values(), ids=NOT_SIMULATED)
def test_run_of_what_cannot_be_simulated_uses_real_processes(program: Path, body: str) -> None:
    Path("a.py").write_text(
        f"import torch, torch.distributed as dist\ndef main():\n    r = dist.get_rank()\n    {body}\n"
    )
    told = json.loads(rankup("run", "a.py", "--ranks", "2", "--json").stdout)
    assert (told["engine"], told["ending"], told["diagnoses"]) == ("gloo", "finished", [])
    done = rankup("run", "a.py", "--ranks", "2", "--fault", "kill:1@op=1")
    assert (done.returncode, "cannot be simulated" in done.stderr) == (2, True)


@pytest.mark.heavy
def test_run_with_a_fault_says_what_became_of_the_others(program: Path) -> None:
    done = rankup("run", "a.py", "--ranks", "3", "--fault", "kill:1@op=1")
    assert done.returncode == 1
    assert "rank 1 was killed" in " ".join(done.stdout.split())
