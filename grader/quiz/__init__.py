"""Flashcards: decks in plain Markdown, reviews scheduled by FSRS, sessions in the terminal.

Stands alone: imports nothing else of the grader.
"""
