"""Simulated ranks: a thread each, exactly one running, virtual time, exact counts. Runs in the box, in one process."""
