"""Processes that work for this one: messages through pipes, numbers in shared memory, and a watchdog in the worker."""
