"""The image of the Dockerfile is really built, from Debian's packages, and used with a container's defaults."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
from often import on_day

ROOT = Path(__file__).parent.parent
BASE, IMAGE = "localhost/base", "localhost/rankup"
MIRROR = "http://deb.debian.org/debian"
TRUSTED = Path("/etc/ssl/certs/ca-certificates.crt")


@dataclass(frozen=True)
class Buildah:
    """Builds images, and runs containers of them, below a folder of ours. In chroot isolation: it needs no runtime, and
    forbids user namespaces, as Docker does."""

    storage: Path

    def __call__(self, command: str, *arguments: str | Path) -> str:
        where = ["--root", self.storage / "root", "--runroot", self.storage / "run"]
        done = subprocess.run(["buildah", *where, command, *arguments], text=True, stdout=subprocess.PIPE,
                              stderr=subprocess.STDOUT)  # fmt: skip
        assert done.returncode == 0, done.stdout[-4000:]
        return done.stdout

    def run(self, container: str, command: str, *options: str) -> str:
        return self("run", "--isolation", "chroot", *options, container, "--", "sh", "-c", command)


@pytest.fixture(scope="module")
def buildah(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Buildah]:
    """With an image of the Dockerfile in it. No registry is asked for the base: it is made of Debian's packages."""
    missing = [name for name in ("buildah", "debootstrap") if shutil.which(name) is None]
    if missing or os.geteuid() != 0:
        pytest.skip("an image is built by root, with: apt-get install buildah debootstrap")
    base = tmp_path_factory.mktemp("container")
    make = ["debootstrap", "--variant=minbase", "--include=ca-certificates", "bookworm", base / "debian", MIRROR]
    made = subprocess.run(make, text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    if made.returncode:
        pytest.skip(f"no Debian could be made: {made.stdout.strip().splitlines()[-1]}")
    shutil.copy(TRUSTED, base / "debian" / TRUSTED.relative_to("/"))  # a network's proxy may be among them
    built = Buildah(base / "storage")
    container = built("from", "scratch").split()[-1]
    built("add", "--quiet", container, base / "debian", "/")
    built("commit", "--quiet", container, BASE)
    try:
        built("bud", "--isolation", "chroot", "--build-arg", f"BASE={BASE}", "--build-arg", "EXTRAS=hub", *_packages(),
              "--tag", IMAGE, ROOT)  # fmt: skip
        yield built
    finally:
        built("rm", "--all")
        built("rmi", "--all", "--force")


def _packages() -> list[str]:
    """Options by which pip in the build has the packages that pip has here."""
    found = {}
    for name in ("find-links", "extra-index-url"):
        done = subprocess.run([sys.executable, "-m", "pip", "config", "get", f"global.{name}"], text=True,
                              stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)  # fmt: skip
        found[name] = done.stdout.strip()
    folders = set(re.findall(r"(?:file://)?(/\w+/[\w-]+)", " ".join(found.values())))
    shared = [option for folder in folders for option in ("--volume", f"{folder}:{folder}:ro")]
    links = ["--env", f"PIP_FIND_LINKS={found['find-links']}"] if found["find-links"] else []
    index = ["--build-arg", f"PIP_EXTRA_INDEX_URL={found['extra-index-url']}"] if found["extra-index-url"] else []
    return [*shared, *links, *index]


@on_day(0, 6)
def test_an_image_is_built_and_the_demo_runs_in_it(buildah: Buildah, tmp_path: Path) -> None:
    container = buildah("from", IMAGE).split()[-1]
    said = re.sub(r"\s+", " ", buildah.run(container, "rankup doctor"))
    assert "64 ranks summed a tensor" in said
    assert "2 ranks summed a tensor" in said
    assert "forbidden by this container's filter of system calls" in said
    files = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, check=True, stdout=subprocess.PIPE).stdout
    subprocess.run(["tar", "--null", "--create", "--file", tmp_path / "checkout.tar", "--files-from", "-"], cwd=ROOT,
                   check=True, input=files)  # fmt: skip
    tmp_path.chmod(0o755)
    unpacked = "mkdir checkout && tar -xf /given/checkout.tar -C checkout && cd checkout"
    told = buildah.run(container, f"{unpacked} && python demo/run.py", "--volume", f"{tmp_path}:/given:ro")
    points = dict(re.findall(r"^(\w+) +(\d+)/20 ", told, re.MULTILINE))
    assert points == {"ada": "20", "bela": "20", "chen": "16", "dmitri": "0", "emma": "0", "farid": "0", "grace": "17",
                      "hana": "0", "ivan": "0", "judit": "0"}, told  # fmt: skip


def test_a_development_container_is_made_of_the_same_image() -> None:
    folder = ROOT / ".devcontainer"
    told = json.loads(re.sub(r"^\s*//.*$", "", (folder / "devcontainer.json").read_text(), flags=re.MULTILINE))
    dockerfile = folder / told["build"]["dockerfile"]
    text = dockerfile.read_text()
    assert (folder / told["build"]["context"]).resolve() == ROOT
    assert f"useradd --create-home --uid 1000 --shell /bin/bash {told['remoteUser']}" in text
    python = told["customizations"]["vscode"]["settings"]["python.defaultInterpreterPath"]
    assert f"python3 -m venv {python.removesuffix('/bin/python')}" in text
