"""The worlds that an exercise can name, one module each: what the learner writes for one, and the bench that its checks
judge by. Nothing above knows more of them than `grader.exercise.World` says."""
