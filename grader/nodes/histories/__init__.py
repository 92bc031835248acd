"""What clients of a store did and saw, and whether one order of their operations explains it: reading and recording
histories, models, checkers for linearizability and sequential consistency, sentences and pictures of what is wrong."""
