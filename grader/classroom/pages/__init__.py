"""HTML pages that need nothing but themselves: a submission's feedback, and what became of a class."""
