"""For those who write exercises: wrong and right submissions, their verdicts, and the tools that make an exercise."""
