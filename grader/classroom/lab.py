"""JupyterLab on the course, opened at a chapter or at the learner's copy of an exercise."""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import NoReturn

from grader import catalog
from grader.classroom import own
from grader.registry import names, near
from grader.submission import BadRequest

# Jupyter's settings while it is ours: it asks nobody for news, and runs where there is no network.
SETTINGS = Path(__file__).parent / "settings"
HUB = "JUPYTERHUB_API_TOKEN"  # where a JupyterHub starts us, it sets this


def open_lab(what: str | None, options: Sequence[str] = ()) -> NoReturn:
    """Become JupyterLab, in the learner's folder, with nbgrader's settings. `options` are JupyterLab's own.

    `what` is a chapter ("06"), an exercise, or None for the first chapter. Raises BadRequest for anything else, and for
    an exercise that is not started. Where a JupyterHub starts us, it is the hub's server for this learner.
    """
    from jupyter_core.paths import jupyter_runtime_dir

    root, target = _target(what)
    runtime = Path(jupyter_runtime_dir())
    try:
        runtime.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        told = f"{runtime}: JupyterLab cannot keep its files here: {error.strerror}"
        raise BadRequest(f"{told}. JUPYTER_RUNTIME_DIR can name another folder") from None
    os.chdir(root)  # nbgrader reads nbgrader_config.py from here
    _prepend("PATH", str(Path(sys.executable).parent), os.defpath)  # rankup, in a terminal of it
    _prepend("JUPYTER_CONFIG_PATH", str(SETTINGS))
    shell = os.environ.get("SHELL") or shutil.which("bash") or "sh"
    # not a login shell, which would set the PATH anew
    more = [f"--ServerApp.terminado_settings={{'shell_command': ['{shell}']}}"]
    if os.geteuid() == 0:  # as in a container: JupyterLab would end at once
        more.append("--allow-root")
    # a file named on its command line would make that file's folder the root, without work/ and exercises/
    if not any("log" in option or option == "--debug" for option in options):
        more.append("--log-level=ERROR")  # the address is told as critical, below thirty lines of news
    more += [f"--ServerApp.root_dir={root}", f"--LabApp.default_url=/lab/tree/{target.relative_to(root).as_posix()}"]
    program = "jupyterhub.singleuser" if HUB in os.environ else "jupyterlab"
    os.execv(sys.executable, [sys.executable, "-m", program, *more, *options])


def _prepend(variable: str, folder: str, default: str = "") -> None:
    """Put a folder in front of those that an environment variable lists."""
    listed = os.environ.get(variable) or default
    os.environ[variable] = os.pathsep.join([folder, listed] if listed else [folder])


def _target(what: str | None) -> tuple[Path, Path]:
    """The folder that JupyterLab shows, and the file or folder in it to open."""
    if what in names():
        path = own.place(str(what))
        if not path.exists():
            raise BadRequest(f"{own.shown(path)} does not exist; `rankup start {what}` makes your own copy")
        return own.home(), path
    chapter = catalog.chapter_notebook((what or "00").zfill(2))
    if chapter is None:
        raise BadRequest(f"no chapter or exercise is called {what!r}; {near(what or '')}")
    course = catalog.course() if catalog.is_checkout() else _unpacked(catalog.course(), own.home() / "course")
    return course.parent, course / chapter.name


def _unpacked(course: Path, into: Path) -> Path:
    """The chapters of an installed package, put where the learner can run and change them; what is there stays."""
    try:
        for path in course.rglob("*"):
            target = into / path.relative_to(course)
            if path.is_file() and not target.exists():
                target.parent.mkdir(parents=True, exist_ok=True)
                shutil.copyfile(path, target)
    except OSError as error:
        raise BadRequest(f"{into}: cannot be written: {error.strerror}") from None
    own.remember(into.parent)
    return into
