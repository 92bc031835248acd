"""Real databases under many clients: their transactions become a history, which the isolation checker judges.

`run.play` makes a table of its own, drives the clients statement by statement, and leaves nothing behind.
"""
