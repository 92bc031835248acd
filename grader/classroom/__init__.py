"""Where grading meets people: check() in a notebook, nbgrader, feedback pages, reports in the terminal."""
