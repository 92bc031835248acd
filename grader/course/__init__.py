"""What the chapters draw and print with: plots of measured numbers as SVG, time lines, and tables."""

from grader.course.plot import Plot, bars, plot, si
from grader.course.table import table
from grader.course.timeline import timeline

__all__ = ["Plot", "bars", "plot", "si", "table", "timeline"]
