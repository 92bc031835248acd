"""One event model for every world: operations, messages, logical time, space-time diagrams. Knows nothing of torch."""
