"""Rounds that copy what topics have to an archive: sources, plans, and the tasks that read."""
