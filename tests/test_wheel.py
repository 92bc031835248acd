"""What a learner has who has the wheel alone: everything, from an empty folder, with its dependencies and no others."""

from __future__ import annotations

import importlib.metadata
import os
import re
import subprocess
import sys
import sysconfig
import venv
from dataclasses import dataclass
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT = Path(__file__).parent.parent
CHAPTER = "02-cap"  # its cells take seconds, draw, and are about nodes and ranks
ASKED = "ring_all_reduce"
SIZE = re.compile(r"http://127\.0\.0\.1:(\d+)/\S*\?token=(\w+)")

pytestmark = pytest.mark.heavy


@dataclass(frozen=True)
class Installed:
    """An environment with the wheel, and the empty folder in which its commands are given."""

    prefix: Path
    folder: Path

    @property
    def environment(self) -> dict[str, str]:
        """A user's of this machine, who has nothing of ours."""
        home = str(self.folder.parent / "home")
        kept = {
            name: value for name, value in os.environ.items() if not name.startswith(("RANKUP", "PYTHON", "JUPYTER"))
        }
        return {**kept, "HOME": home, "XDG_RUNTIME_DIR": home, "PATH": f"{self.prefix / 'bin'}:{os.environ['PATH']}"}

    def rankup(self, *arguments: str, typed: str = "") -> tuple[int, str]:
        """A command's exit status, and what it says on both its streams."""
        done = subprocess.run(
            [self.prefix / "bin" / "rankup", *arguments], cwd=self.folder, env=self.environment, input=typed, text=True,
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=300,
        )  # fmt: skip
        return done.returncode, done.stdout


def needed(name: str, extras: frozenset[str] = frozenset()) -> set[str]:
    """Every distribution that pip would install with this one, which must be here."""
    found: dict[str, set[str]] = {}
    todo = [(name, extras)]
    while todo:
        one, wanted = todo.pop()
        if (
            wanted <= found.setdefault(canonicalize_name(one), set())
            and len(found) > 1
            and "" in found[canonicalize_name(one)]
        ):
            continue
        found[canonicalize_name(one)] |= {"", *wanted}
        for each in map(Requirement, importlib.metadata.requires(one) or []):
            if each.marker is None or any(each.marker.evaluate({"extra": extra}) for extra in {"", *wanted}):
                todo.append((each.name, frozenset(each.extras)))
    return set(found)


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Installed:
    """The wheel in a fresh environment. Its dependencies are links to what is here: they are 2 GB."""
    base = tmp_path_factory.mktemp("wheel")
    subprocess.run([sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", base], cwd=ROOT, check=True,
                   stdout=subprocess.PIPE)  # fmt: skip
    prefix, folder = base / "venv", base / "empty"
    venv.create(prefix, symlinks=True)
    folder.mkdir()
    (base / "home").mkdir(mode=0o700)
    ours = Path(sysconfig.get_path("purelib"))
    theirs = prefix / ours.relative_to(sys.prefix)
    for name in needed("rankup") - {"rankup"}:
        for file in importlib.metadata.distribution(name).files or []:
            source, target = ours / file, theirs / file
            if source.is_file() and "bin" not in file.parts[:4]:
                target.parent.mkdir(parents=True, exist_ok=True)
                os.link(source, target)
    subprocess.run(
        [sys.executable, "-m", "pip", "--python", prefix, "install", "--no-index", *base.glob("*.whl")], check=True,
        stdout=subprocess.PIPE, env={**os.environ, "PIP_NO_INDEX": "1", "PIP_DISABLE_PIP_VERSION_CHECK": "1"},
    )  # fmt: skip
    return Installed(prefix, folder)
