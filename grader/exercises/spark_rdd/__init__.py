"""word_count(lines_rdd, top) and page_rank(links_rdd, iterations) on RDDs.

Spark's manual, "RDD programming guide": shuffle operations, persistence. Zaharia et al. 2012, "Resilient distributed
datasets", section 3.2. Judged by what they return and by what Spark's event log says of bytes, results and storage.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Set
from typing import Any

from grader import says, tally
from grader.exercise import Check, Exercise
from grader.exercises.spark_rdd import graphs as given
from grader.jobs.sparks.bench import SparkBench
from grader.jobs.sparks.engine import Lines, Returned
from grader.trace.gantt import Chart
from grader.verdict import Diagnosis
from grader.worlds.spark import Spark

Judge = Callable[[Returned], Diagnosis | None]
MORE = 1.2  # times the bytes of our own program
AGAIN = 1.3  # times what was written is read, where nothing large is made twice
OVERHEAD = 2_000  # bytes of a task's result, which it sends with no data, too; about
TOP, ROUNDS = 10, 6
TIED = 3  # of the top places, those for which thousands of words are frequent enough
NO_ROUND = "page_rank without an iteration"


# ---- the runs


def _text(bench: SparkBench) -> str:
    return given.words(bench.rng("words"), 3000, 400)


def _varied(bench: SparkBench) -> str:
    return given.rare_at_the_end(bench.rng("many words"), TOP, TIED)


def _graph(bench: SparkBench) -> str:
    return given.links(bench.rng("links"), 300, 1500, 60)


def _few_links(bench: SparkBench) -> str:
    return given.links(bench.rng("few links"), 16, 30)


def _counted(bench: SparkBench) -> tuple[str, Returned]:
    label = f"word_count of 3,000 lines, top {TOP}"
    return label, bench.run(label, "word_count", Lines(_text(bench)), TOP)


def _chosen(bench: SparkBench) -> tuple[str, str, Returned]:
    """Of which no partition may forget a word that is rare in it, or one that is smaller than others as frequent."""
    text, label = _varied(bench), f"word_count of thousands of different words, top {TOP}"
    return label, text, bench.run(label, "word_count", Lines(text), TOP)


def _ranked(bench: SparkBench) -> tuple[str, Returned]:
    label = f"page_rank of 300 pages, {ROUNDS} iterations"
    return label, bench.run(label, "page_rank", Lines(_graph(bench), pairs=True), ROUNDS)


# ---- what must hold


def _words_wrong(bench: SparkBench, label: str, text: str, top: int, rare: bool = False) -> Judge:
    """`rare`: the top words are frequent in the first lines, and rarer than others in the last ones."""
    right: list[list[Any]] = given.counted(text, top)

    def judge(returned: Returned) -> Diagnosis | None:
        got = returned.value
        if returned.type_name != "list":
            message = f"{label}: your function returned a {returned.type_name}. Return a list of (word, count)."
            return bench.found("wrong_result", message, "a list", returned.type_name)
        if got == right:
            return None
        at = next(
            (at for at, (mine, its) in enumerate(zip(got, right, strict=False)) if mine != its),
            min(len(got), len(right)),
        )
        mine, its = (_told(found[at]) if at < len(found) else "nothing" for found in (got, right))
        message = (
            f"{label}: place {at + 1} is {mine} instead of {its}. Words are what str.split() gives, with their case. Put "
            "the most frequent first, and of equally frequent words the smaller one."
        )
        odd = next((word for word in map(_word, got) if word is not None and word.split() != [word]), None)
        if odd is not None:
            message += f" str.split() never gives {_told(odd)}: it splits at all white space, and gives no empty word."
        elif rare and got and got[0] == [right[0][0], given.EARLY]:
            message += (
                f" {right[0][0]!r} is {given.EARLY} times in the first lines and once in the last ones, where many other "
                "words are twice. Add up all counts of a word before you choose the top ones."
            )
        elif _smaller_left_out(got, right, at):
            word, times = right[at]
            message = (
                f"{label}: place {at + 1} is {mine} instead of {its}. Your list is in the right order, but it leaves out "
                f"{word!r}, which occurs {says.counted(times, 'time')} as well and is smaller. If you first choose words in "
                "each partition, choose them by count and then by word there, too."
            )
        return bench.found("wrong_result", message, its, mine)

    return judge


def _smaller_left_out(got: Any, right: list[list[Any]], at: int) -> bool:
    """Whether all that is wrong is that greater words, which are as frequent, are in the place of smaller ones."""
    if len(got) != len(right) or not all(_word(pair) for pair in got):
        return False
    if [pair[1:] for pair in got] != [pair[1:] for pair in right] or got != sorted(got, key=lambda p: (-p[1], p[0])):
        return False
    return bool(right[at][0] < got[at][0])


def _word(pair: Any) -> str | None:
    return pair[0] if isinstance(pair, list) and pair and isinstance(pair[0], str) else None


def _ranks_wrong(bench: SparkBench, label: str, text: str, iterations: int) -> Judge:
    right = given.ranked(text, iterations)

    def judge(returned: Returned) -> Diagnosis | None:
        found = bench.found
        if returned.type_name != "dict":
            message = f"{label}: your function returned a {returned.type_name}. Return a dict of page to rank."
            return found("wrong_result", message, "a dict", returned.type_name)
        got = {_name(page): rank for page, rank in returned.value}
        for page in [*right, *got]:
            if page not in got:
                missing = right.keys() - got.keys()
                message = (
                    f"{label}: {len(missing)} of {len(right)} pages are missing, for example {page[:12]!r}. "
                    f"{_alike(text, missing)}Rank every page that is a source or a target of a link."
                )
                return found("wrong_result", message, f"{len(right)} pages", f"{len(got)} pages")
            if page not in right:
                return found(
                    "wrong_result",
                    f"{label}: the result ranks {_told(page)}, which is not a page.",
                    f"{len(right)} pages",
                    f"{len(got)} pages",
                )
        bad = [page for page in right if not _close(got[page], right[page])]
        if not bad:
            return None
        message = (
            f"{label}: {len(bad)} of {len(right)} ranks are wrong. That of {bad[0][:12]!r} is {_told(got[bad[0]])} instead of "
            f"{right[bad[0]]:.6g}. All ranks begin as 1.0. An iteration makes them 0.15 + 0.85 x sum(rank / links out). Count "
            "a link that comes twice once."
        )
        return found("wrong_result", message, f"{right[bad[0]]:.6g}", _told(got[bad[0]]))

    return judge


def _alike(text: str, pages: Set[str]) -> str:
    """What these pages have in common, in a sentence with a space behind it; "" for nothing."""
    links = [line.split("\t") for line in text.splitlines()]
    if pages.isdisjoint(target for _, target in links):
        return f"No link leads to {'any of them' if len(pages) > 1 else 'it'}. "
    if pages.isdisjoint(source for source, _ in links):
        return f"No link leads out of {'any of them' if len(pages) > 1 else 'it'}. "
    return ""


def _name(page: Any) -> str:
    return page if isinstance(page, str) else f"a {type(page).__name__}"


def _close(got: Any, right: float) -> bool:
    return isinstance(got, int | float) and not isinstance(got, bool) and math.isclose(got, right, rel_tol=1e-6)


def _told(value: Any) -> str:
    text = f"({value[0]!r}, {value[1]!r})" if isinstance(value, list) and len(value) == 2 else repr(value)
    return text if len(text) <= 60 else text[:57] + "..."


def _shuffled(bench: SparkBench, label: str, ours: Returned, hint: str) -> Judge:
    most = MORE * ours.measured.total("shuffle_written_bytes")

    def judge(returned: Returned) -> Diagnosis | None:
        got = returned.measured.total("shuffle_written_bytes")
        tally.note("bytes shuffled", got, most, "bytes", where=label, reference=most / MORE, of="our solution")
        if got <= most:
            return None
        largest = max(returned.measured.stages.values(), key=lambda stage: stage.total("shuffle_written_bytes"))
        message = (
            f"{got:,} bytes were shuffled, but {most:,.0f} are enough. Stage {largest.number} ({largest.operation}) shuffled "
            f"more than any other, {largest.total('shuffle_written_bytes'):,} bytes in "
            f"{largest.total('shuffle_written_records'):,} records. {hint}"
        )
        return bench.found("too_many_bytes", message, f"<= {most:,.0f} bytes", f"{got:,}")

    return judge


def _collected(bench: SparkBench, label: str, most: int, at_the_end: int, together: int, what: str) -> Judge:
    """Bytes that a job may send to the driver: every one but the last, the last, and all jobs together."""

    def judge(returned: Returned) -> Diagnosis | None:
        results = returned.measured.results()
        for number, (_, got) in enumerate(results, 1):
            allowed = at_the_end if number == len(results) else most
            if got > allowed:
                message = (
                    f"{label}: job {number} of {len(results)} sent {got:,} bytes to the driver, but {allowed:,} are more than "
                    f"enough. {what}"
                )
                return bench.found("too_many_bytes", message, f"<= {allowed:,} bytes", f"{got:,}")
        stages = returned.measured.stages
        sent = sum(max(0, got - OVERHEAD * len(stages[max(job.stages)].tasks)) for job, got in results)
        if sent > together:  # by a job for each partition, as toLocalIterator() has them
            message = (
                f"{label}: {len(results)} jobs together sent more than {sent:,} bytes to the driver, but {together:,} are more "
                f"than enough. {what}"
            )
            return bench.found("too_many_bytes", message, f"<= {together:,} bytes", f"> {sent:,}")
        return None

    return judge


def _kept(bench: SparkBench) -> Judge:
    def judge(returned: Returned) -> Diagnosis | None:
        measured = returned.measured
        read, written = measured.total("shuffle_read_bytes"), measured.total("shuffle_written_bytes")
        again = (
            f"tasks read {read:,} bytes from shuffles into which only {written:,} were written, so the same bytes were "
            f"read several times in {ROUNDS} iterations. Persist the links after they are grouped."
        )
        if not measured.cached:
            message = f"No RDD was persisted, and {again}"
            if measured.unpersisted:
                message = (
                    f"No job used an RDD while it was persisted, and {again} Nothing is computed before an action, so call "
                    "unpersist() after it."
                )
            elif read <= AGAIN * written:
                message = "No RDD was persisted. Persist what every iteration uses."
            return bench.found("too_many_rounds", message, "a persisted RDD", "none")
        if read > AGAIN * written:
            message = f"An RDD was persisted, but {again}"
            return bench.found("too_many_rounds", message, f"<= {AGAIN * written:,.0f} bytes", f"{read:,}")
        return None

    return judge


def _given_back(bench: SparkBench, label: str) -> Judge:
    def judge(returned: Returned) -> Diagnosis | None:
        measured = returned.measured
        left = measured.cached - measured.unpersisted
        if not left:
            return None
        message = f"{label}: {len(left)} of {len(measured.cached)} persisted RDDs were still there when page_rank() returned. Call unpersist() before you return."
        return bench.found("too_much_memory", message, "none left", f"{len(left)} left")

    return judge


# ---- the checks


def _words(bench: SparkBench) -> Chart:
    rng = bench.rng("few words")
    ties = "b a c\nc b a\n\n   \nd  d\nB\tB\n"
    few = given.words(rng, 30, 12) + "it's it's\tx-ray x-ray x-ray naïve naïve\tnaïve naïve 42 42\n"
    few += "kiwi\u00a0kiwi\u3000kiwi\u2003fig\n"  # white space that is no blank and no tab
    for label, text, top in (
        ("word_count of few lines with ties", ties, 3),
        ("word_count with a top beyond all words", few, 100),
        ("word_count of no line", "", 5),
    ):
        bench.hold(label, bench.run(label, "word_count", Lines(text), top), _words_wrong(bench, label, text, top))
    label, text, returned = _chosen(bench)
    bench.hold(label, returned, _words_wrong(bench, label, text, TOP, rare=True))
    label, returned = _counted(bench)
    return bench.hold(label, returned, _words_wrong(bench, label, _text(bench), TOP))


def _ranks(bench: SparkBench) -> Chart:
    few = _few_links(bench)
    for label, text, iterations in (
        (f"page_rank of {len(given.ranked(few, 0))} pages, 3 iterations", few, 3),
        ("page_rank of three pages, one of them an empty text, one iteration", "a\tb\na\tb\nb\ta\na\ta\nb\t\n", 1),
        (NO_ROUND, few, 0),
    ):
        returned = bench.run(label, "page_rank", Lines(text, pairs=True), iterations)
        bench.hold(label, returned, _ranks_wrong(bench, label, text, iterations))
    label, returned = _ranked(bench)
    return bench.hold(label, returned, _ranks_wrong(bench, label, _graph(bench), ROUNDS))


def _word_bytes(bench: SparkBench) -> Chart:
    label, returned = _counted(bench)
    ours = bench.ours(given.WORD_COUNT, "word_count", Lines(_text(bench)), TOP)
    hint = (
        "groupByKey sends every pair, and sorting an RDD shuffles all of it. Add up with reduceByKey, and take the top."
    )
    return bench.hold(
        label, returned, _words_wrong(bench, label, _text(bench), TOP), _shuffled(bench, label, ours, hint)
    )


def _rank_bytes(bench: SparkBench) -> Chart:
    label, returned = _ranked(bench)
    ours = bench.ours(given.PAGE_RANK, "page_rank", Lines(_graph(bench), pairs=True), ROUNDS)
    hint = "A join does not move a side that has its partitioner. Group the links once, and change ranks by mapValues."
    return bench.hold(
        label, returned, _ranks_wrong(bench, label, _graph(bench), ROUNDS), _shuffled(bench, label, ours, hint)
    )


def _driver(bench: SparkBench) -> Chart:
    what = "Let the executors count and order, and take only the top."
    label, text, returned = _chosen(bench)
    wrong, most = _words_wrong(bench, label, text, TOP, rare=True), len(text) // 2
    bench.hold(label, returned, wrong, _collected(bench, label, most, most, most, what))
    label, returned = _ranked(bench)
    wrong, most = _ranks_wrong(bench, label, _graph(bench), ROUNDS), len(_graph(bench)) // 12
    ours = bench.ours(given.PAGE_RANK, "page_rank", Lines(_graph(bench), pairs=True), ROUNDS)
    at_the_end = 2 * max(got for _, got in ours.measured.results())
    what = "Keep ranks and links on the executors until the last iteration is done. Collect only the ranks."
    return bench.hold(label, returned, wrong, _collected(bench, label, most, at_the_end, most + at_the_end, what))


def _persisted(bench: SparkBench) -> Chart:
    without = bench.run(NO_ROUND, "page_rank", Lines(_few_links(bench), pairs=True), 0)
    label, returned = _ranked(bench)
    wrong = _ranks_wrong(bench, label, _graph(bench), ROUNDS)
    bench.hold(label, returned, wrong, _kept(bench), _given_back(bench, label))
    bench.hold(NO_ROUND, without, _given_back(bench, NO_ROUND))
    return bench.hold(label, returned)


EXERCISE = Exercise(
    name="spark_rdd",
    chapter="05",
    title="Word count and PageRank on RDDs",
    minutes=50,
    difficulty=2,
    cost="tens of seconds",
    world=Spark(("word_count", "page_rank")),
    checks=(
        Check("words", "Words counted, ordered and cut", 3, _words),
        Check("ranks", "Ranks after so many iterations", 4, _ranks),
        Check("word_bytes", "Bytes that word_count shuffles", 3, _word_bytes),
        Check("rank_bytes", "Bytes that page_rank shuffles", 4, _rank_bytes),
        Check("driver", "Nothing is collected before the end", 3, _driver),
        Check("persisted", "What is used again is persisted, and unpersisted", 3, _persisted),
    ),
)
