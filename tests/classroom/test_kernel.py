"""A notebook's kernel in a box, and nbgrader's step that runs notebooks in it."""

from __future__ import annotations

import os
import socket
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import nbformat
import pytest
from nbclient import NotebookClient
from nbformat.v4 import new_code_cell, new_notebook
from often import often

from grader.classroom import autograde
from grader.classroom.kernel import BoxedKernelManager
from grader.sandbox import modes
from grader.sandbox.limits import BoxLimits
from grader.sandbox.supervise import tree

ROOT = Path(__file__).parent.parent.parent
WALLED = [pytest.param("full", marks=pytest.mark.skipif(modes.why_not("full") != "", reason=modes.why_not("full")))]
EVERY = [*WALLED, "none"]


def said(cell: Any) -> str:
    """What a cell printed, or the error it ended with."""
    return "".join(output.get("text") or output.get("evalue") or "" for output in cell.outputs)


def run(mode: modes.Mode, *sources: str, **options: Any) -> list[str]:
    """What each cell said, in a boxed kernel."""
    notebook = new_notebook(cells=[new_code_cell(source) for source in sources])
    manager = BoxedKernelManager(mode=mode, **options)
    client = NotebookClient(notebook, manager, allow_errors=True, timeout=60, interrupt_on_timeout=False)
    with client.setup_kernel(cleanup_kc=True):
        pids = tree(manager._process.pid)
        for index, cell in enumerate(notebook.cells):
            client.execute_cell(cell, index)
    assert not os.path.exists(manager.folder)
    assert not [pid for pid in pids if _runs(pid)]
    return [said(cell) for cell in notebook.cells]


def _runs(pid: int) -> bool:
    """Whether a process goes on: one that has ended may wait for its parent."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


@pytest.mark.parametrize("mode", EVERY)
def test_a_kernel_runs_cells_and_has_the_course_but_nothing_of_the_grading(mode: modes.Mode, tmp_path: Path) -> None:
    (tmp_path / "data.csv").write_text("1,2")
    home, *rest = run(
        mode,
        "import os; print(os.environ['HOME'])",
        "from grader import check, play; print('imported')",
        "print(open('data/d.csv').read()); open('mine.txt', 'w').write('x'); print(os.getcwd())",
        "1 / 0",
        "check(len)",
        files={"data/d.csv": tmp_path / "data.csv"},
    )
    assert rest[0] == "imported\n"
    assert rest[1] == f"1,2\n{home.strip()}/work\n"
    assert rest[2] == "division by zero"
    assert "a notebook cell or a file" in rest[3]


@pytest.mark.parametrize("mode", WALLED)
def test_a_kernel_reads_nothing_of_the_course_the_class_or_the_teacher(mode: modes.Mode, tmp_path: Path) -> None:
    others = tmp_path / "submitted" / "ada" / "06"
    others.mkdir(parents=True)
    (others / "ring.ipynb").write_text("her work")
    (tmp_path / "gradebook.db").write_text("points")
    hidden = [
        *(ROOT / name for name in ("solutions", "exercises", "tests", "nbgrader_config.py", "grader/exercise.py")),
        *(
            ROOT / "grader" / name
            for name in ("exercises/common/sums.py", "classroom/service.py", "classroom/autograde.py")
        ),
        *(tmp_path, others / "ring.ipynb", tmp_path / "gradebook.db"),
    ]
    [found, imported] = run(
        mode,
        "import os\n"
        f"for path in {list(map(str, hidden))!r}:\n"
        "    try: print(path, os.listdir(path) if os.path.isdir(path) else open(path, 'rb').read(9))\n"
        "    except OSError: pass",
        "import grader.exercise",
    )
    assert found == ""
    assert "grader.exercise" in imported


@pytest.mark.parametrize("mode", WALLED)
def test_a_kernel_reaches_neither_the_host_nor_its_processes(mode: modes.Mode) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        [reached, processes] = run(
            mode,
            f"import socket\nsocket.create_connection(('127.0.0.1', {server.getsockname()[1]}), 5)",
            "import os\nprint(sum(name.isdigit() for name in os.listdir('/proc')))",
        )
    assert "Connection refused" in reached
    assert int(processes) <= 3, "the box's first process, and the kernel"


@pytest.mark.parametrize("mode", EVERY)
def test_daemons_end_with_the_kernel(mode: modes.Mode) -> None:
    """Which `run` looks at."""
    [_, waited] = run(
        mode,
        "import os, time\n"
        "if os.fork() == 0:\n"
        "    os.setsid()\n"
        "    if os.fork() == 0: time.sleep(1000)\n"
        "    os._exit(0)",
        "os.wait(); print('forked')",
    )
    assert waited == "forked\n"


class Steps:
    """nbgrader's steps on one notebook, as nbgrader calls them."""

    def __init__(self, folder: Path, timeout: int = 60) -> None:
        self.step = autograde.Execute(timeout=timeout)
        self.resources = {"metadata": {"path": str(folder)}, "nbgrader": {"student": "ada"}}

    def execute(self, *sources: str, graded: tuple[str, ...] = ()) -> list[Any]:
        """The notebook's cells afterwards: the given ones, and then graded ones."""
        marks = [
            {"grade": True, "grade_id": f"g{number}", "locked": True, "solution": False, "points": 1}
            for number in range(len(graded))
        ]
        cells = [new_code_cell(source) for source in sources]
        cells += [new_code_cell(text, metadata={"nbgrader": mark}) for text, mark in zip(graded, marks, strict=True)]
        notebook, _ = self.step.preprocess(new_notebook(cells=cells), self.resources)
        return list(notebook.cells)


@pytest.fixture
def steps(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Steps]:
    monkeypatch.setenv(autograde.TRUST, "1")
    yield Steps(tmp_path)
    autograde._shared.end()


TEACHERS = "assert answer == 42"


def test_a_teachers_own_asserts_are_run_in_the_box(steps: Steps) -> None:
    _, first, second = steps.execute("answer = 42", graded=(TEACHERS, "assert answer == 41, 'too large'"))
    assert (said(first), said(second)) == ("", "too large")


# what ends a kernel, in how many seconds, and what is said of it
ENDINGS = [
    ("it leaves", "import os; os._exit(0)", 60, "the kernel ended"),
    ("it hangs", "import time; time.sleep(1000)", 1, "the cell did not end within 1 s"),
    ("it is silent", "get_ipython().kernel.session.send = None", 1, "the cell did not end within 1 s"),
    ("it floods", "while True: display('x' * 10**6)", 60, "printed and showed more than 16 MiB"),
    ("it shows too much at once", "display('x' * 2**25)", 60, "showed more than 16 MiB at once"),
]


OFTEN = ("it leaves", "it hangs")


@pytest.mark.parametrize(
    ("source", "timeout", "why"), often({name: tuple(ending) for name, *ending in ENDINGS}, *OFTEN)
)
def test_a_kernel_that_ends_or_hangs_costs_the_rest_of_the_notebook_and_no_more(
    steps: Steps, source: str, timeout: int, why: str
) -> None:
    steps.step.timeout = timeout
    before, ending, after, graded, asked = steps.execute(
        "answer = 42; print(answer)", source, "print('after')", graded=(TEACHERS, "check(f)")
    )
    assert said(before) == "42\n"
    assert why in ending.outputs[-1].evalue
    assert why in said(after)
    assert said(graded).startswith("not run, because of an earlier cell"), "an empty output would be all the points"
    assert asked.outputs == [] or "not run" in said(asked)


# what a kernel sends instead of an answer
SENT = {
    "odd outputs": ("error", {"ename": 1, "evalue": [], "traceback": 7}),
    "odd data": ("display_data", {"data": {"text/plain": 1, "text/html": "x"}, "metadata": 2}),
    "half a message": ("stream", {}),
}


@pytest.mark.parametrize(("kind", "content"), SENT.values(), ids=SENT.keys())
def test_a_kernel_that_talks_nonsense_ends_nothing_but_its_notebook(steps: Steps, kind: str, content: Any) -> None:
    cells = steps.execute(
        "kernel = get_ipython().kernel\n"
        f"_ = kernel.session.send(kernel.iopub_socket, {kind!r}, {content!r}, kernel.get_parent())",
        graded=("1 / 0",),
    )
    nbformat.validate(new_notebook(cells=cells))
    assert cells[-1].outputs[-1].output_type == "error"


@pytest.mark.heavy
def test_memory_is_limited(steps: Steps, monkeypatch: pytest.MonkeyPatch) -> None:
    limits = BoxLimits(memory_bytes=300 * 2**20)
    monkeypatch.setattr(autograde, "BoxedKernelManager", partial(BoxedKernelManager, limits=limits))
    [cell] = steps.execute("held = []\nwhile True: held.append(bytearray(2**20))")
    assert "memory" in cell.outputs[-1].evalue.lower()


def test_a_notebook_has_so_much_time_for_all_its_cells(steps: Steps) -> None:
    steps.step.notebook_timeout = 1
    [*_, last] = steps.execute("import time; time.sleep(0.5)", "time.sleep(0.6)", "print('done')")
    assert "took more than 1 seconds together" in said(last) or "did not end within" in said(last)


def test_files_that_came_with_it_are_there_but_no_links_and_no_notebooks(tmp_path: Path) -> None:
    (tmp_path / "secret").write_text("secret")
    came = tmp_path / "work"
    (came / "data").mkdir(parents=True)
    (came / "data" / "d.csv").write_text("1,2")
    (came / "other.ipynb").write_text("{}")
    (came / "link").symlink_to(tmp_path / "secret")
    (came / "folder").symlink_to(tmp_path)
    steps = Steps(came)
    assert autograde._files(steps.step, steps.resources) == {"data/d.csv": came / "data" / "d.csv"}


def test_without_full_isolation_work_of_others_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(autograde.TRUST, raising=False)
    assert "If you trust everybody who handed in, set RANKUP_TRUST_SUBMISSIONS=1" in autograde.refused("none")
    monkeypatch.setenv(autograde.TRUST, "1")
    assert autograde.refused("none") == ""


def test_with_full_isolation_it_never_is(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(autograde.TRUST, raising=False)
    assert autograde.refused("full") == ""
