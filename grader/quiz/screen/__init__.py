"""A quiz on the full screen of a terminal, drawn with Textual: choosing, asking, statistics, help."""
