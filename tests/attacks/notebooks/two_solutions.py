"""Marks a second cell as the solution, before the first and after it, and names both alike.

tries: points
earned: 16
"""

# %% solution
@NAIVE@

# %% edit
import copy

import nbformat

first = next(cell for cell in notebook.cells if cell.metadata.get("nbgrader", {}).get("solution"))
for place, source in ((0, "def ring_all_reduce(tensor):\n    raise SystemExit(0)\n"), (len(notebook.cells), "20.0\n")):
    twin = copy.deepcopy(first)
    twin.source, twin.id = source, nbformat.v4.new_code_cell().id
    twin.metadata.nbgrader.grade_id = "solution" if place == 0 else "solution-2"
    notebook.cells.insert(place, twin)
