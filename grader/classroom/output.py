"""What ranks print, while they run: on the terminal line by line, in a file for each rank, or kept for JSON."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Self, TextIO

from rich.console import Console
from rich.progress import Progress, SpinnerColumn, TextColumn, TimeElapsedColumn
from rich.text import Text

from grader.sandbox.client import Beyond, plain
from grader.says import counted
from grader.submission import BadRequest

MOST_BYTES = 2**28  # that all ranks together may print
STREAMS = ("stdout", "stderr")


class Output:
    """Hears each rank. On a terminal it says meanwhile what is going on.

    `shown`: lines go to our own stdout and stderr as they come, with the rank before them. `folder` gets a file for
    each rank in place of that; `kept` says whether `texts` is wanted.
    """

    def __init__(self, ranks: int, shown: bool, folder: Path | None = None, kept: bool = False) -> None:
        self._ranks, self._shown, self._kept = ranks, shown and folder is None, kept
        self._bytes = 0
        self._texts = [{stream: bytearray() for stream in STREAMS} for _ in range(ranks if kept else 0)]
        self._begun: dict[tuple[int, str], bytes] = {}  # lines without an end
        self.files = [folder / f"rank-{rank}.txt" for rank in range(ranks)] if folder is not None else []
        if folder is not None:
            try:
                folder.mkdir(parents=True, exist_ok=True)
                for old in {*folder.glob("rank-*.txt"), *self.files}:
                    old.unlink(missing_ok=True) if old not in self.files else old.write_bytes(b"")
            except OSError as error:
                raise BadRequest(f"{folder}: the ranks' output cannot be written there ({error.strerror})") from None
        console = Console(stderr=True)
        columns = SpinnerColumn(), TextColumn("{task.description}", markup=False), TimeElapsedColumn()
        self._progress = Progress(*columns, console=console, transient=True, redirect_stdout=False,
                                  redirect_stderr=False, disable=not (shown and console.is_terminal))  # fmt: skip

    def __enter__(self) -> Self:
        self._progress.start()
        return self

    def __exit__(self, *_: object) -> None:
        for (rank, stream), rest in sorted(self._begun.items()):
            self._line(rank, stream, rest)
        self._begun.clear()
        self._progress.stop()

    def going_on(self, what: str) -> None:
        """Say what is going on from now on."""
        for task in self._progress.task_ids:
            self._progress.remove_task(task)
        self._progress.add_task(what, total=None)

    def begin_anew(self, why: str) -> None:
        """What was printed does not count: the program starts over."""
        self.__exit__()
        self._bytes = 0
        for path in self.files:
            path.write_bytes(b"")
        for each in self._texts:
            for text in each.values():
                text.clear()
        print(why, file=sys.stderr, flush=True)
        self._progress.start()

    def __call__(self, rank: int, stream: str, data: bytes) -> None:
        stream = "stdout" if stream == "stdout" else "stderr"
        self._bytes += len(data)
        if self._kept:
            self._texts[rank][stream] += data
        if self.files:
            try:
                with open(self.files[rank], "ab") as file:
                    file.write(data)
            except OSError as error:
                raise BadRequest(f"{self.files[rank]}: cannot be written ({error.strerror})") from None
        elif self._shown:
            *whole, rest = (self._begun.pop((rank, stream), b"") + data).split(b"\n")
            for line in whole:
                self._line(rank, stream, line)
            if rest:
                self._begun[rank, stream] = rest
        if self._bytes > MOST_BYTES:
            raise Beyond("printing", self._bytes, MOST_BYTES, rank)

    def _line(self, rank: int, stream: str, line: bytes) -> None:
        """Show a line as a terminal would: what a progress bar wrote over is not seen."""
        seen = line.decode(errors="replace").rstrip("\r").rpartition("\r")[2]
        text = f"[rank{rank}] {plain(seen.expandtabs(), len(line) * 8)}"
        out: TextIO = sys.stdout if stream == "stdout" else sys.stderr
        if out.isatty() and not self._progress.disable:
            self._progress.console.print(Text(text), soft_wrap=True)
        else:
            print(text, file=out, flush=True)

    def texts(self, rank: int) -> dict[str, str]:
        """All that a rank has printed, by stream."""
        return {stream: text.decode(errors="replace") for stream, text in self._texts[rank].items()}

    def told(self) -> str:
        """Where it is to be read, as a sentence; "" where it was shown."""
        if not self.files:
            return ""
        which = str(self.files[0]) if self._ranks == 1 else f"{self.files[0]} to {self.files[-1].name}"
        return f"wrote what {counted(self._ranks, 'rank')} printed to {which}"
