"""rankup: graded exercises that run real distributed code, and say exactly what went wrong."""
