"""One folder an exercise."""
