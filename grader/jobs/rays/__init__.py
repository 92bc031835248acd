"""Ray in a box, once for many runs. host: the supervisor, who forks Ray's workers and drivers; driver: a process that
runs the learner's program against that Ray; observer: starts Ray and reads its tables; rendezvous: where processes in
there say what they are about to do, and wait; lease: the grading process's side; bench: what checks call."""
