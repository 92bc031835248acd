"""Real processes as nodes: the network between them, the services they may ask, the faults that befall them.

`run.play` runs one workload against one command; nothing it started is left when it returns or is killed."""
