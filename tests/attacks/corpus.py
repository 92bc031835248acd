"""The attacks: submissions that try to win points or to do harm, what each says of itself, and how one is made ready.

`<exercise>.md` in this folder holds those on an exercise, written as wrong submissions are (see
`grader.authoring.sections`): a heading, `## NAME: what it does.`, one block of code, and between them in a line

    family: NAME            one of FAMILIES
    tries: points|harm
    earned: POINTS          that the code honestly earns: it must not get more
    paid: yes               only where it must not get less either
    ends: KIND, KIND        the kinds that lost checks may have; `none` where nothing is to be lost, `any` where what
                            happens depends on how much of a box there is
    uses: NAME, NAME        files of tests/attacks/snippets that are put before it; `reference`: the exercise's solution
    base: NAME              of one whose block is a diff: the reference, another right solution, or an attack above it
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

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from grader.authoring import sections, wrong
from grader.authoring.sections import Bad, Section
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
    "serve_replicas",
    "ring_attention",
    "expert_parallel",
    "zero_bubble",
    "gang_scheduler",
    "find_anomaly",
    "serve_llm",
    "rollout_sync",
    "disaggregated_serving",
    "speculative_decoding",
    "mend_the_tutorial",
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
_NEEDED = ("family", "tries", "earned", "ends")
_FIELDS = (*_NEEDED, "paid", "uses", "base", "file", "heavy")
_FENCES = ("```python", "```diff")


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


def read(text: str, exercise: str, file: str = "attacks") -> list[Attack]:
    """The attacks that stand in this text. Raises BadRequest with the file, the heading and what to do."""
    bases = wrong.bases(exercise)
    found = sections.read(text, file, _FIELDS, _NEEDED, _FENCES, lambda section: _attack(section, exercise, bases))
    return list(found.values())


def _attack(section: Section, exercise: str, bases: dict[str, list[str]]) -> Attack:
    """The attack of a section, which is a base of those below it from now on."""
    fields, body = section.fields, section.body
    if section.fence == "```diff":
        body = wrong.applied(bases, fields.get("base", wrong.REFERENCE), body)
    bases[section.name] = body
    if fields["family"] not in FAMILIES or fields["tries"] not in ("points", "harm"):
        raise Bad(f"no such family or aim: {fields['family']}, {fields['tries']}")
    kinds = frozenset() if fields["ends"] == "none" else frozenset(fields["ends"].split(", "))
    if unknown := kinds - KINDS - {"any"}:
        raise Bad(f"{', '.join(sorted(unknown))} is no kind of diagnosis")
    return Attack(
        f"{exercise}/{section.name}", exercise, "\n".join(body) + "\n", section.told, fields["family"],
        fields["tries"], float(fields["earned"]), sections.yes(fields, "paid"), None if "any" in kinds else kinds,
        tuple(fields["uses"].split(", ")) if "uses" in fields else (),
        fields.get("file", f"{section.name}.py"), sections.yes(fields, "heavy"),
    )  # fmt: skip


def attacks() -> list[Attack]:
    """Every attack, those that are written down and those that are made by a program (see `generated`)."""
    import generated

    files = [HERE / f"{exercise}.md" for exercise in EXERCISES]
    return [*(each for file in files for each in read(file.read_text(), file.stem, file.name)), *generated.attacks()]
