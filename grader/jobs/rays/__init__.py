"""Ray in a box, once for many runs. nursery: who forks Ray's workers, drivers and what counts them; driver: a process
that runs the learner's program against that Ray; observer: starts Ray and reads its tables; gate: where processes in
there say what they are about to do, and wait; room: the grading process's side; bench: what checks call."""
