"""wrong.md: what is read from it, and that what does not fit is an error that says where and what to do."""

from __future__ import annotations

import re

import pytest
from typer.testing import CliRunner

from grader.authoring import wrong
from grader.authoring.command import app
from grader.registry import names
from grader.submission import BadRequest

BASES = {
    "reference": ["import x", "", "def f(a):", "    a += 1", "    a += 1", "    return a"],
    "right/other": ["f = g"],
}
GOOD = """\
# Wrong submissions to it

## one_more: Adds 2.
check: sum; kind: wrong_result or timeout; only: yes
```diff
     a += 1
-    return a
+    a += 1
+    a += 0
+    return a
@@
-import x
+import y

```

## whole: Is no Python: `def f(`.
check: sum; kind: syntax_error; heavy: yes
```python
## a comment: of a kind.
def f(
```
"""


def read(text: str) -> tuple[wrong.Wrong, ...]:
    return wrong.read(text, "it", ("sum", "bytes"), BASES, "it/wrong.md")


def test_a_diff_is_applied_and_what_stands_whole_is_taken_as_it_is() -> None:
    changed, whole = read(GOOD)
    assert changed.source == "import y\n\ndef f(a):\n    a += 1\n    a += 1\n    a += 1\n    a += 0\n    return a\n"
    assert (changed.bug, changed.check, changed.kinds) == ("Adds 2.", "sum", ("wrong_result", "timeout"))
    assert (changed.only, changed.heavy, changed.base) == (True, False, "reference")
    assert (whole.only, whole.heavy, whole.base) == (False, True, "")
    assert whole.source == "## a comment: of a kind.\ndef f(\n"


@pytest.mark.parametrize(
    ("old", "new", "why"),
    [
        ("# Wrong submissions to it", "Wrong", "only a title may come"),
        ("one_more: Adds 2.", "one_more Adds 2.", "write the heading as '## name: Sentence that says what is wrong.'"),
        ("Adds 2.", "Adds 2", "write the heading as '## name: Sentence"),
        ("## whole", "## one_more", "'## one_more: Is no Python: `def f(`.': two submissions have this name"),
        ("check: sum; kind: wrong", "check: sums; kind: wrong", "it has no check called 'sums'; it has sum, bytes"),
        ("check: sum; kind: wrong_result or timeout", "kind: timeout", "'check: ...' is missing"),
        ("kind: wrong_result or timeout", "kind: wrong", "'wrong' is not a kind of diagnosis"),
        ("only: yes", "only: no", "leave it out or write 'only: yes'"),
        ("only: yes", "onyl: yes", "'onyl: yes' is not one of"),
        ("only: yes", "kind: race", "'kind: race' is not one of"),
        ("only: yes", "base: right/gone", "its base 'right/gone' does not exist; choose from reference, right/other"),
        ("only: yes", "base: right/other", "does not apply to right/other"),
        ("heavy: yes", "base: reference", "a ```python block has no base"),
        ("```diff", "```", "write one block"),
        ("    return a\n@@", "    return a\n```\nMore text.\n```diff\n@@", "write one block"),
        ("     a += 1\n-    return a\n", "     a += 1\n", "from `a += 1` on, are there 2 times; add unchanged lines"),
        ("-    return a\n", "-    return b\n", "from `a += 1` on, are not there"),
        ("-import x\n", "import x\n", "'import x' must begin with"),
        ("-import x\n+import y\n\n", " import x\n", "a part of its diff changes nothing"),
        ("-import x\n+import y\n\n", "-    a += 1\n-    return a\n", "two parts of its diff change line 6"),
    ],
)
def test_what_does_not_fit_is_an_error_that_says_where_and_what_to_do(old: str, new: str, why: str) -> None:
    assert old in GOOD
    with pytest.raises(BadRequest, match=re.escape(why)) as error:
        read(GOOD.replace(old, new, 1))
    assert str(error.value).startswith("it/wrong.md")


def test_every_right_solution_says_how_it_does_it() -> None:
    for path in (path for name in names() for path in wrong.right(name)):
        assert re.match(r'"""[^"]+\.', path.read_text()), path


def test_the_command_lists_them_and_prints_one_as_a_file() -> None:
    listed = CliRunner().invoke(app, ["wrong", "cost_model"])
    assert "beta_as_bandwidth: " in listed.stdout
    one = CliRunner().invoke(app, ["wrong", "cost_model/beta_as_bandwidth"])
    assert one.stdout == wrong.find("cost_model/beta_as_bandwidth").source
    gone = CliRunner().invoke(app, ["wrong", "cost_model/gone"])
    assert str(gone.exception).startswith("cost_model has no wrong submission called 'gone'")
