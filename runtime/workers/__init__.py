"""Processes and threads that work for this one: messages through pipes, shared memory, watchdogs, computations."""
