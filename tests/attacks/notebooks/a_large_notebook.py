"""A notebook of fifty megabytes, with deep and broken metadata, pictures that are none and widgets with scripts.

tries: harm
earned: 16
"""

# %% solution
@NAIVE@

# %% edit
deep = inner = {}
for _ in range(300):
    inner["d"] = {}
    inner = inner["d"]
notebook.metadata["deep"] = deep
notebook.metadata["kernelspec"] = {"name": "../../bin/sh", "display_name": "<script>", "language": "no"}
notebook.metadata["language_info"] = {"name": "x" * 1000, "file_extension": "/../../x", "nbconvert_exporter": "script"}
notebook.metadata["widgets"] = {"application/vnd.jupyter.widget-state+json": {"state": {"a": {"model_name": "<script>"}}}}
notebook.metadata["celltoolbar"] = ["x"]
notebook.cells[0].attachments = {"a.png": {"image/png": "A" * 50_000_000}}
notebook.cells[1].metadata["nbgrader"] = "locked"
notebook.cells[2].metadata = {"tags": ["skip-execution"] * 1000, "nbgrader": {"grade_id": ["x"]}}
