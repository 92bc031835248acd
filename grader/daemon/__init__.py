"""The warm service: a process with everything imported, which forks to do `rankup grade`, `run` and `watch`, and what
check() in a notebook asks for. place: where its socket is; client: the console script; server: the process itself."""
