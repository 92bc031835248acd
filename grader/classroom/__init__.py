"""Where grading meets people: check() in a notebook, nbgrader, feedback pages, reports in the terminal."""

import sys
from types import ModuleType

# nbformat imports jsonschema, and that a grammar of international addresses, which takes 1.4 of nbformat's 1.6 s and
# is for a kind of field that no notebook has. Where the grammar is not there, jsonschema goes on without it.
sys.modules.setdefault("rfc3987_syntax", ModuleType("rfc3987_syntax"))
