"""nbgrader's own steps, for work that is not to be trusted: `nbgrader autograde` with nbgrader_config.py takes these.

The notebook runs in a box. Points for check() come from the grading service's record, never from what the kernel said:
restore.Restore, and nbgrader's own that put back the teacher's cells; then Execute; then Record, and nbgrader's own
that write the gradebook.
"""

from __future__ import annotations

import atexit
import contextlib
import os
import tempfile
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from nbclient.client import NotebookClient
from nbclient.exceptions import CellTimeoutError, DeadKernelError
from nbconvert.exporters import NotebookExporter
from nbformat.v4 import new_code_cell, new_output
from nbgrader import utils
from nbgrader.converters.base import NbGraderException
from nbgrader.preprocessors import Execute as NbGraderExecute
from nbgrader.preprocessors import NbGraderPreprocessor
from traitlets import Integer

from grader import registry
from grader.classroom import cells, door
from grader.classroom.batch.pool import ungraded
from grader.classroom.kernel import MESSAGE_BYTES, BoxedKernelManager
from grader.classroom.service import FILE, Service
from grader.sandbox import modes
from grader.sandbox.supervise import kill_tree
from grader.submission import BadRequest, Submission, cells_of, graded
from grader.verdict import Verdict

TRUST = "RANKUP_TRUST_SUBMISSIONS"
RECORD = "rankup_record"  # where Execute leaves the record for Record, in nbgrader's resources
IDLE_SECONDS = 60.0  # a service that nobody needs is ended: formgrader's process may live for weeks
OUTPUT_BYTES = 16 * 2**20  # of all cells together
MOST_FILES = 1000
SHOWN = ("text/plain", "text/html", "text/markdown", "text/latex", "image/png", "image/jpeg", "image/svg+xml")


def refused(mode: modes.Mode) -> str:
    """Why notebooks of others are not run in this mode; "" if they are."""
    if mode == "full" or os.environ.get(TRUST) == "1":
        return ""
    return (
        f"Notebooks are not run here, because they would not be isolated: {modes.advice(mode)}. "
        f"If you trust everybody who handed in, set {TRUST}=1 instead."
    )


class _Shared:
    """One grading service for this process: started when first needed, ended when nobody has needed it for a while."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._service: Service | None = None
        self._users = 0
        self._timer: threading.Timer | None = None

    def start(self) -> None:
        """Have it import torch while there is other work to do."""
        with self.lease() as service:
            service.warm_up()

    @contextlib.contextmanager
    def lease(self) -> Iterator[Service]:
        with self._lock:
            if self._timer:
                self._timer.cancel()
            if self._service is None:
                self._service = Service()
                atexit.register(self.end)
            self._users += 1
            service = self._service
        try:
            yield service
        finally:
            with self._lock:
                self._users -= 1
                if not self._users:
                    self._timer = threading.Timer(IDLE_SECONDS, self.end)
                    self._timer.daemon = True
                    self._timer.start()

    def end(self) -> None:
        """End it, unless somebody needs it."""
        with self._lock:
            if self._service is None or self._users:
                return
            atexit.unregister(self.end)
            service, self._service = self._service, None
            if self._timer:
                self._timer.cancel()
        service.close()


_shared = _Shared()


class Exporter(NotebookExporter):  # type: ignore[misc]
    """What nbgrader makes once for every run of autograde: refuses before the first submission, or never."""

    def __init__(self, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        mode = modes.mode()
        why = refused(mode)
        if why:
            self.log.error(why)
            raise NbGraderException(why)
        if mode != "full":
            self.log.warning("Notebooks run without full isolation: %s.", modes.NOT_ISOLATED[mode])
        _shared.start()


class Execute(NbGraderExecute):  # type: ignore[misc]
    """Runs the notebook in a box.

    A cell that hangs costs its timeout once, and ends the run, as does a kernel that dies or prints too much. Cells
    that only call check() are not run: the record decides on them, and is graded meanwhile. A teacher's own asserts are
    run, and as always with nbgrader it is the learner's kernel that says whether they hold.
    """

    notebook_timeout = Integer(300, help="Seconds that all cells of a notebook may take together.").tag(config=True)

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.interrupt_on_timeout, self.shutdown_kernel, self.record_timing = False, "immediate", False
        self.startup_timeout: int = min(60, self.timeout or 60)
        self._ends_at = 0.0
        self._taken = 0
        self._why = ""

    def preprocess(self, nb: Any, resources: Any, km: Any = None) -> tuple[Any, Any]:
        with _shared.lease() as service, tempfile.TemporaryDirectory(prefix="rankup-door-") as folder:
            record = resources[RECORD] = door.Record(service)
            _begin_to_grade(nb, record)
            with door.Door(service, os.path.join(folder, "service.sock"), record) as ours:
                files = _files(self, resources)
                self._run_all(nb, resources, BoxedKernelManager(service=ours.path, files=files, config=self.config))
        for cell in nb.cells:
            if cell.cell_type == "code":
                cell.outputs = [made for output in cell.outputs if (made := _well_formed(output))]
                cell.execution_count = None
        nb.metadata["language_info"] = {"name": "python"}  # a kernel that is asked may say anything
        return nb, resources

    def _run_all(self, nb: Any, resources: Any, km: BoxedKernelManager) -> None:
        NotebookClient.__init__(self, nb, km)
        self.reset_execution_trackers()
        self._check_assign_resources(resources)
        self._ends_at, self._taken, self._why = time.monotonic() + self.notebook_timeout, 0, ""
        left = list(enumerate(nb.cells))
        try:
            with self.setup_kernel(cleanup_kc=True):
                while left:
                    if time.monotonic() > self._ends_at:
                        self._why = f"the notebook's cells took more than {self.notebook_timeout} seconds together"
                        break
                    self._run(*left[0])
                    left.pop(0)
        except CellTimeoutError as error:
            self._why = f"the cell did not end within {self.timeout} s"
            if "IOPub" in str(error):  # it did, but its last message never came: a longer one was in its way
                self._why = f"the cell showed more than {MESSAGE_BYTES // 2**20} MiB at once"
        except Exception as error:  # a learner's kernel may send us anything
            ended = isinstance(error, (DeadKernelError, RuntimeError))
            self._why = self._why or km.exceeded or ("the kernel ended" if ended else "the kernel sent nonsense")
            self.log.warning("%s: %s (%r) %s", resources["nbgrader"]["student"], self._why, error, km.said())
        for number, (_, cell) in enumerate(left):
            if cell.cell_type == "code":
                why = self._why if number == 0 else f"not run, because of an earlier cell: {self._why}"
                cell.outputs = [*(cell.outputs if number == 0 else []), _ended(why)]

    def _run(self, index: int, cell: Any) -> None:
        """One cell. Of one that the record decides on, what comes before the call of check()."""
        if cell.cell_type != "code":
            return
        asked = cells.asked(cell.source) if utils.is_grade(cell) else None
        if asked is None or not asked.alone:
            self.execute_cell(cell, index, store_history=True)
            return
        before = new_code_cell(cells.imports(cell.source))
        self.execute_cell(before, index, store_history=True)
        self.nb.cells[index] = cell

    def _get_timeout(self, cell: Any) -> int | None:
        left = max(1, int(self._ends_at - time.monotonic()))
        return min(self.timeout, left) if self.timeout else left

    def process_message(self, msg: Any, cell: Any, cell_index: int) -> Any:
        self._taken += len(str(msg["content"])) + sum(map(len, msg.get("buffers", [])))
        if self._taken <= OUTPUT_BYTES:
            return super().process_message(msg, cell, cell_index)
        if not self._why:
            self._why = f"the notebook printed and showed more than {OUTPUT_BYTES // 2**20} MiB"
            kill_tree(self.km.provisioner.process.pid)
        return None

    async def _async_check_alive(self) -> None:
        if self.kc is None:  # nbclient goes on looking at a kernel that talked nonsense
            raise DeadKernelError("Kernel died")
        await super()._async_check_alive()

    def set_widgets_metadata(self) -> None:
        """None are kept."""


def _begin_to_grade(nb: Any, record: door.Record) -> None:
    """Grade what the record will be asked for, while the notebook runs."""
    for owner in dict.fromkeys(asked.owner for _, asked in _checks(nb)):
        threading.Thread(target=_grade_quietly, args=(nb, owner, record), daemon=True).start()


def _grade_quietly(nb: Any, owner: str, record: door.Record) -> None:
    with contextlib.suppress(Exception):  # Record asks again, and is told
        _verdict(nb, owner, record)


def _checks(nb: Any) -> Iterator[tuple[Any, cells.Asked]]:
    """The graded cells that the record decides on, and what they ask for."""
    for cell in nb.cells:
        if cell.cell_type == "code" and utils.is_grade(cell) and not utils.is_solution(cell):
            asked = cells.asked(cell.source)
            if asked is not None:
                yield cell, asked


def _verdict(nb: Any, owner: str, record: door.Record) -> Verdict:
    source, _ = graded(cells_of(nb)[0], registry.owner(owner).function_names)
    return record.verdict(owner, Submission(source, FILE))


def _well_formed(output: Any) -> Any:
    """An output as nbgrader can keep it, with what can be shown of it; None if there is nothing."""
    kind = output.get("output_type")
    if kind == "stream":
        return new_output(kind, name="stderr" if output.name == "stderr" else "stdout", text=str(output.text))
    if kind == "error":
        lines = output.traceback if isinstance(output.traceback, list) else []
        return new_output(kind, ename=str(output.ename), evalue=str(output.evalue), traceback=list(map(str, lines)))
    if kind in ("display_data", "execute_result") and isinstance(output.get("data"), dict):
        return new_output(
            kind, {name: text for name, text in output.data.items() if name in SHOWN and type(text) is str}
        )
    return None


def _ended(why: str) -> Any:
    return new_output("error", ename="NotRun", evalue=why, traceback=[f"NotRun: {why}"])


def _files(step: Any, resources: Any) -> dict[str, Path]:
    """The files that came with a notebook, by their names: not notebooks, and nothing that was handed in as a link."""
    folder = Path(resources["metadata"]["path"])
    handed_in = None
    converter = getattr(step.parent, "parent", None)  # the exporter's
    if converter is not None and getattr(converter, "coursedir", None):
        course, where = converter.coursedir, resources["nbgrader"]
        handed_in = Path(course.format_path(course.submitted_directory, where["student"], where["assignment"]))
    found: dict[str, Path] = {}
    for path in sorted(folder.rglob("*")):
        name = path.relative_to(folder)
        links = [
            Path(base, *name.parts[: n + 1]) for base in (folder, handed_in) if base for n in range(len(name.parts))
        ]
        if path.is_file() and path.suffix != ".ipynb" and not any(link.is_symlink() for link in links):
            found[str(name)] = path
        if len(found) == MOST_FILES:
            break
    return found


class NotGraded(Exception):  # noqa: N818 - reads as what happened
    """The grading service could not do its work: nbgrader leaves the submission ungraded, and says so."""


class Record(NbGraderPreprocessor):  # type: ignore[misc]
    """Writes into every graded cell that calls check() what the grading service recorded, and nothing else."""

    def preprocess(self, nb: Any, resources: Any) -> tuple[Any, Any]:
        with _shared.lease() as service:
            record = resources.pop(RECORD, None) or door.Record(service)
            for cell, asked in _checks(nb):
                if not asked.alone and any(output.output_type == "error" for output in cell.outputs):
                    continue  # a statement of the teacher's own failed
                try:
                    verdict = _verdict(nb, asked.owner, record)
                    if why := ungraded(verdict):  # twice: no zero for what is no fault of the learner's
                        raise NotGraded(f"Not graded: {why}.")
                    cells.write_record(cell, verdict, asked.check)
                except BadRequest as error:
                    self.log.error("%s: %s", cell.metadata.nbgrader.grade_id, error)
                    cells.write_failure(cell, str(error))
        return nb, resources
