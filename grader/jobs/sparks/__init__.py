"""Spark in a box: a warm JVM, drivers that are lent it, and what Spark's own event log says of their jobs."""
