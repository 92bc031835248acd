"""start(spark, input_dir, output_dir, checkpoint_dir): windowed counts from files to files, through crashes.

Spark's manual, "Structured Streaming programming guide": event time and watermarking, foreachBatch, recovering from
failures. Akidau et al. 2015, "The Dataflow Model". Judged by what spark.read.parquet finds in the output.
"""

from __future__ import annotations

import json
import random
from collections import Counter
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from typing import Any

from grader import says
from grader.exercise import Check, Exercise
from grader.exercises.stream_exactly_once.windows import Part, Story, Window, story
from grader.jobs.sparks.bench import SparkBench
from grader.jobs.sparks.lives import Lived, Output
from grader.lost import Lost
from grader.trace.gantt import Bar, Chart
from grader.verdict import Diagnosis
from grader.worlds.spark import Spark

COLUMNS = {
    "window_start": ("timestamp", "timestamp_ntz"), "window_end": ("timestamp", "timestamp_ntz"),
    "key": ("string",), "count": ("bigint", "int"),
}  # fmt: skip
MINUTE = timedelta(minutes=1)
Judge = Callable[[], Diagnosis | None]


@lru_cache(maxsize=4)
def _story(seed: int) -> Story:

    return story(random.Random(f"{seed} events"))


class Seen:
    """The output as it was read: its rows by window, and what cannot be a row."""

    def __init__(self, told: Story, output: Output) -> None:
        self.counts: Counter[Window] = Counter()
        self.rows: Counter[Window] = Counter()
        self.ends: dict[Window, datetime] = {}
        self.strange: list[str] = []
        for text in output.rows:
            row = json.loads(text)
            try:
                begin, end = (_moment(row[name]) for name in ("window_start", "window_end"))
                minute, rest = divmod(begin - told.first, MINUTE)
                window = minute, str(row["key"])
                if rest or row["key"] is None or not isinstance(row["count"], int):
                    raise ValueError
            except (KeyError, TypeError, ValueError, OverflowError):
                self.strange.append(text)
                continue
            self.counts[window] += row["count"]
            self.rows[window] += 1
            self.ends[window] = end


def _moment(text: Any) -> datetime:
    found = datetime.fromisoformat(text)
    return found if found.tzinfo else found.replace(tzinfo=UTC)


class Judges:
    """What must hold of one grading's lives."""

    def __init__(self, bench: SparkBench) -> None:
        self.bench = bench
        self.story = _story(bench.seed)
        self.lived: Lived = bench.live("start", self.story.lives)

    def output(self, number: int) -> Output:
        """What was read, the first time or the last. Raises Lost where it did not come to that."""
        if len(self.lived.outputs) <= number and self.lived.trouble is not None:
            raise self.lived.trouble
        return self.lived.outputs[number]

    def shape(self, output: Output) -> Diagnosis | None:
        """Whether there is a table with the columns that were asked for."""
        found, names = self.bench.found, dict(output.columns)
        wanted = ", ".join(COLUMNS)
        if not output.columns:
            message = f"spark.read.parquet(output_dir) finds no table: {output.why[:200]}"
            return found("wrong_result", message, f"a table of {wanted}", "no table")
        for name, kinds in COLUMNS.items():
            if names.get(name) not in kinds:
                got = f"has the type {names[name]}" if name in names else "is missing"
                message = f"The output's column {name} {got}. Write window_start and window_end (timestamps), key (string) and count (bigint)."
                return found("wrong_result", message, f"{name}: {kinds[0]}", names.get(name, "none"))
        return None

    def ends(self, seen: Seen) -> Diagnosis | None:
        found = self.bench.found
        if seen.strange:
            message = (
                f"A row of the output is not a count of a window that begins on a full minute: {seen.strange[0][:160]}"
            )
            return found("wrong_result", message, "window_start on the minute", seen.strange[0][:60])
        for (minute, key), end in sorted(seen.ends.items()):
            right = self.story.first + (minute + 1) * MINUTE
            if end != right:
                message = f"The window of {key!r} that begins at {right - MINUTE:%H:%M:%S} has window_end {end:%H:%M:%S.%f} instead of {right:%H:%M:%S}. A window ends where the next one begins."
                return found("wrong_result", message, f"{right:%H:%M:%S}", f"{end:%H:%M:%S.%f}")
        return None

    def values(self, seen: Seen, part: Part) -> Diagnosis | None:
        """Whether each window of this part has its count, in one row."""
        told = self.story
        parts = (part, "carried") if part in ("open", "uncommitted") else (part,)
        of_it = sorted(window for window in {*told.right, *told.dropped, *seen.counts} if told.part(window) in parts)
        bad = [window for window in of_it if self._is_wrong(window, seen, part)]
        if not bad:
            return None
        worst = next((window for window in bad if seen.counts[window] != told.right[window]), bad[0])
        return self._wrong(worst, len(bad), len(of_it), seen, part)

    def _is_wrong(self, window: Window, seen: Seen, part: Part) -> bool:
        right, got, rows = self.story.right[window], seen.counts[window], seen.rows[window]
        if self.story.part(window) == "carried":  # what is lost of it, is lost with the state
            return got < right if part == "open" else got > right or rows > 1
        return got != right or rows != bool(right)

    def _wrong(self, window: Window, bad: int, all_: int, seen: Seen, part: Part) -> Diagnosis:
        right, got, rows = self.story.right[window], seen.counts[window], seen.rows[window]
        where = f"Window {self.story.name(window[0])} of key {window[1]!r}"
        if not rows:
            what = f"{where} is not in the output, but {says.counted(right, 'event')} must be counted in it."
        elif got == right:
            what = f"{where} has {says.counted(rows, 'row')} in the output instead of {int(bool(right))}."
        else:
            in_rows = f" in {rows} rows" if rows > 1 else ""
            what = f"{where} counts {got}{in_rows} instead of {right}."
        others = f" {bad} of {all_} such windows are wrong." if bad > 1 else ""
        kind = self.bench.found
        return kind(_KINDS[part], f"{what}{others} {self._why(window, part, got)}", str(right), str(got))

    def _why(self, window: Window, part: Part, got: int) -> str:
        if part not in ("plain", "carried") and self.values(Seen(self.story, self.output(0)), "plain"):
            return f"Windows without late events that no kill touched are wrong, too. {_WHYS['plain']}"
        if part == "late":
            late, right = self.story.dropped[window], self.story.right[window]
            if (got < right) if late else (got > right):
                return "Count each event once, unless it comes after the watermark has passed its window's end."
            if late:
                return f"{late} more of its events came after the watermark (2 minutes behind the latest event) had passed its end. Drop those."
            return "Some of its events came late, but before the watermark (2 minutes behind the latest event) had passed its end. Count those."
        return _WHYS[part]

    def input(self) -> Diagnosis | None:
        """Whether the input's files are as they were put there, whenever it was looked."""
        name = next((output.changed for output in self.lived.outputs if output.changed), "")
        if not name:
            return None
        text = f"{name} in input_dir is not as it was put there: it was deleted, moved or changed, or it is new. Leave input_dir as it is: you may write to output_dir and checkpoint_dir only."
        return self.bench.found("wrong_result", text, "the input's files, unchanged", f"{name} is not")

    def again(self, seen: Seen) -> Diagnosis | None:
        """Whether what was there before the first kill is still there, once."""
        told = self.story
        for window in sorted(told.right):
            if told.part(window) == "plain" and (seen.counts[window], seen.rows[window]) != (told.right[window], 1):
                first = Seen(told, self.output(0))
                if (first.counts[window], first.rows[window]) == (told.right[window], 1):
                    return self._wrong(window, 1, 1, seen, "carried")
        return None

    def chart(self) -> Chart:
        """The lives: what event time each was given, and where it was killed."""
        lanes = tuple(f"life {number + 1}" for number in range(len(self.story.lives)))
        drawn = Chart(lanes, unit=" min")
        for lane, life, spans in zip(lanes, self.story.lives, self.story.spans, strict=True):
            for begin, end in spans:
                text = f"events of {self.story.name(begin)[:5]} to {self.story.name(end)[-5:]}"
                drawn.bars.append(Bar(lane, float(begin), end + 1.0, text))
            if life.death is not None:
                drawn.gone[lane] = spans[-1][1] + 1.0
        drawn.end = max(bar.end for bar in drawn.bars) + 2
        deaths = "; ".join(f"{n + 1}: {life.death.told}" for n, life in enumerate(self.story.lives) if life.death)
        drawn.subtitle = (
            f"Five lives of one query, on event time: what was put into the input in each. {deaths.capitalize()}."
        )
        return drawn

    def hold(self, *judges: Judge) -> Chart:
        for judge in judges:
            wrong = judge()
            if wrong is not None:
                raise Lost(wrong, self.chart())
        return self.chart()


_KINDS: dict[Part, Any] = {
    "plain": "wrong_result", "late": "wrong_result", "open": "lost_or_duplicated", "uncommitted": "lost_or_duplicated",
    "carried": "lost_or_duplicated", "midway": "lost_or_duplicated",
}  # fmt: skip
_WHYS: dict[Part, str] = {
    "plain": "Count by event time, in windows of one minute, for each key. Two events of a key may have the same time: they differ only in event_id.",
    "open": "It was open when the query was killed. Keep its count in the checkpoint, and have the next life go on from there.",
    "carried": "Before the first kill it was right. Leave what has been counted and written as it is.",
    "uncommitted": "Its rows were in the sink when the query was killed, but the batch was not committed. Spark does such a batch again, with the same number. Have the sink recognize that number and write nothing twice.",
    "midway": "The query was killed in the middle of a batch, which Spark does again. Mark a batch as done only when it is all written, and let nothing count that is half written.",
}


# ---- the checks


def _first(bench: SparkBench, *parts: Part) -> Chart:
    judges = Judges(bench)
    output = judges.output(0)
    shape = judges.shape(output)
    if shape:
        return judges.hold(lambda: shape)
    seen = Seen(judges.story, output)
    first = (judges.input, lambda: judges.ends(seen)) if "plain" in parts else ()
    return judges.hold(*first, *(lambda part=part: judges.values(seen, part) for part in parts))


def _last(bench: SparkBench, part: Part) -> Chart:
    judges = Judges(bench)
    output = judges.output(1)
    shape = judges.shape(output)
    if shape:
        return judges.hold(lambda: shape)
    seen = Seen(judges.story, output)
    return judges.hold(lambda: judges.again(seen) if part == "open" else None, lambda: judges.values(seen, part))


EXERCISE = Exercise(
    name="stream_exactly_once",
    chapter="05",
    title="A streaming query that is killed",
    minutes=60,
    difficulty=3,
    cost="minute",
    world=Spark(("start",)),
    checks=(
        Check("counted", "Every event counted once, in its window", 4, lambda bench: _first(bench, "plain")),
        Check(
            "late",
            "Late events: counted before the watermark, dropped beyond it",
            4,
            lambda bench: _first(bench, "late"),
        ),
        Check("restarted", "Killed between two batches: windows go on", 4, lambda bench: _last(bench, "open")),
        Check(
            "uncommitted",
            "Killed between the sink's write and the commit",
            4,
            lambda bench: _last(bench, "uncommitted"),
        ),
        Check("midway", "Killed in the middle of a batch", 4, lambda bench: _last(bench, "midway")),
    ),
)
