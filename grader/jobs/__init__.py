"""Worlds that run jobs: a driver and workers, in processes of their own."""
