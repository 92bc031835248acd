"""Mock interviews: questions chosen by level and weakness, a clock, rubrics to tick, design rounds, and a report.

`conduct` holds the interview and knows no screen; `plain` and `screens` show it, in lines and full-screen.
"""
