"""Where the learner stands: reading, exercises, cards and interviews in one view, and what to do next, and why."""
