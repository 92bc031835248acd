"""What exercises share: inputs and oracles of sums, calls of plain functions, replicas, tables, and checks."""
