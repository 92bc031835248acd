"""What the chapters draw and print with: plots of measured numbers as SVG, time lines, and tables."""

from courselib.plot import bars, plot
from courselib.svg import Plot, si
from courselib.table import table
from courselib.timeline import timeline

__all__ = ["Plot", "bars", "plot", "si", "table", "timeline"]
