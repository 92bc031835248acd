"""What clients ask of nodes, and whether the answers were right: Maelstrom's workloads (doc/workloads.md).

A workload is plain data and pure functions; who runs it records events and hands them to its judge."""
