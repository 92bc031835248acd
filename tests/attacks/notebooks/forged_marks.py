"""Gives graded cells more points, negative ones, no number; adds graded cells of its own, and some twice.

tries: points
earned: 16
"""

# %% solution
@NAIVE@

# %% edit
import copy

import nbformat

graded = [cell for cell in notebook.cells if cell.metadata.get("nbgrader", {}).get("grade")]
for cell, points in zip(graded, (1e300, -5, float("nan"), "all", None, [20], 2**70)):
    twin = copy.deepcopy(cell)
    twin.id = nbformat.v4.new_code_cell().id
    notebook.cells.append(twin)
    cell.metadata.nbgrader.points = points
own = dict(graded[0].metadata.nbgrader, grade_id="extra", points=100)
notebook.cells.append(nbformat.v4.new_code_cell("100.0", metadata={"nbgrader": own}))
notebook.cells.append(nbformat.v4.new_code_cell("pass", metadata={"nbgrader": dict(own, grade_id="more", points=True)}))
notebook.cells.append(nbformat.v4.new_markdown_cell("done", metadata={"nbgrader": dict(own, task=True, grade=False)}))
