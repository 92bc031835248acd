"""Mock interviews: questions chosen by level and weakness, a clock, rubrics to tick, design rounds, and a report."""
