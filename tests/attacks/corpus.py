"""The attacks: submissions that try to win points or to do harm, what each says of itself, and how one is made ready.

An attack is a file in tests/attacks/<exercise>/ that begins with a docstring: a paragraph that says what it does, and

    family: NAME            one of FAMILIES
    tries: points|harm
    earned: POINTS          that the code honestly earns: it must not get more
    paid: yes               only where it must not get less either
    ends: KIND, KIND        the kinds that lost checks may have; `none` where nothing is to be lost, `any` where what
                            happens depends on how much of a box there is
    uses: NAME, NAME        files of tests/attacks/snippets that are put before it; `reference`: the exercise's solution
    file: NAME              the name under which it is handed in, where that is part of the attack
    heavy: yes              it takes long: only `make test-all` runs it

Words between @ signs are replaced, so that an attack can reach for what the test watches, and for nothing else:
@TOKEN@ (a word in all names that it makes), @CANARY@ (a folder with files to read or change), @PORT@ (a listener on the
machine's loopback), @GRADER@ (the grading process), @NAMESPACE@ (the tests' own pid namespace), @REPOSITORY@, @HOME@.

Where an attack sees from inside that it has done what it must not, it says so with won(...) of the snippet `won`, and
the text of the verdict has WON in it. What could hurt the machine is only done where the process namespace is another
than the tests': see `boxed` there. Every process that an attack starts is called @NAME@ and so can be found.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from grader.authoring import wrong
from grader.submission import Submission
from grader.verdict import KINDS

HERE = Path(__file__).parent
SNIPPETS = HERE / "snippets"
EXERCISES = (
    "ring_all_reduce",
    "collectives",
    "cost_model",
    "hierarchical_all_reduce",
    "mesh_transformer",
    "quantized_all_reduce",
    "checkpoint",
    "cap_store",
    "quorum_store",
    "mapreduce",
    "spark_rdd",
    "optuna_shared",
    "serve_checkpoint",
    "ring_attention",
    "expert_parallel",
    "zero_bubble",
    "gang_scheduler",
    "find_anomaly",
    "serve_llm",
    "rollout_sync",
    "disaggregated_serving",
    "speculative_decoding",
)
FAMILIES = (
    "forged_frames",
    "patched_counters",
    "peeking_at_siblings",
    "sharing_behind_the_network",
    "reading_answers",
    "odd_objects",
    "poisoned_environment",
    "persistence",
    "attacking_the_keepers",
    "early_exits",
    "while_loading",
    "injection",
    "bombs",
    "network",
    "escaping",
)
WON = "WON: "
_DOCSTRING = re.compile(r'\A"""(.+?)"""', re.DOTALL)  # not by ast: an attack may be no Python
_FIELD = re.compile(r"^(\w+): *(.+)$")
_FIELDS = {"family", "tries", "earned", "paid", "ends", "uses", "file", "heavy"}
_MUST = ("family", "tries", "earned", "ends")


class BadHeader(Exception):  # noqa: N818 - reads as what is wrong with the file
    """An attack does not say what it is."""


@dataclass(frozen=True)
class Attack:
    """One attack; `ends` is None where any ending will do, `paid` says that it must get what it earned."""

    name: str
    exercise: str
    text: str = field(repr=False)
    told: str
    family: str
    tries: str
    earned: float
    paid: bool
    ends: frozenset[str] | None
    uses: tuple[str, ...]
    file: str
    heavy: bool

    def submission(self, words: Mapping[str, str]) -> Submission:
        """What is handed in: snippets, then the attack, with `words` in place of what stands between @ signs."""
        parts = [self._put_before(name) for name in self.uses]
        text = "\n\n".join([*parts, self.text])
        for word, value in words.items():
            text = text.replace(f"@{word}@", value)
        return Submission(text, self.file)

    def _put_before(self, name: str) -> str:
        if name == wrong.REFERENCE:
            return wrong.reference(self.exercise).source
        return (SNIPPETS / f"{name}.py").read_text()


def read(path: Path) -> Attack:
    """The attack in a file. Raises BadHeader."""
    return parse(path.read_text(), f"{path.parent.name}/{path.stem}", path.parent.name, path.name)


def parse(text: str, name: str, exercise: str, file: str) -> Attack:
    """The attack with this text. Raises BadHeader."""
    docstring = _DOCSTRING.match(text)
    if not docstring:
        raise BadHeader(f"{name} does not begin with a docstring")
    told, _, rest = docstring[1].strip().partition("\n\n")
    fields: dict[str, str] = {}
    for line in filter(None, map(str.strip, rest.splitlines())):
        found = _FIELD.match(line)
        if not found or found[1] not in _FIELDS or found[1] in fields:
            raise BadHeader(f"{name}: {line!r} is none of the fields {', '.join(sorted(_FIELDS))}, each once")
        fields[found[1]] = found[2]
    if missing := [each for each in _MUST if each not in fields]:
        raise BadHeader(f"{name}: there is no field {missing[0]!r}")
    if fields["family"] not in FAMILIES or fields["tries"] not in ("points", "harm"):
        raise BadHeader(f"{name}: no such family or aim: {fields['family']}, {fields['tries']}")
    kinds = frozenset() if fields["ends"] == "none" else frozenset(fields["ends"].split(", "))
    if unknown := kinds - KINDS - {"any"}:
        raise BadHeader(f"{name}: {', '.join(sorted(unknown))} is no kind of diagnosis")
    return Attack(
        name, exercise, text, " ".join(told.split()), fields["family"], fields["tries"], float(fields["earned"]),
        fields.get("paid") == "yes", None if "any" in kinds else kinds,
        tuple(fields["uses"].split(", ")) if "uses" in fields else (),
        fields.get("file", file), fields.get("heavy") == "yes",
    )  # fmt: skip


def attacks() -> list[Attack]:
    """Every attack, those that are files and those that are made by a program (see `generated`)."""
    import generated

    files = [path for exercise in EXERCISES for path in sorted((HERE / exercise).glob("*.py"))]
    return [*(read(path) for path in files), *generated.attacks()]
