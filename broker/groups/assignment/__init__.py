"""Assignors: which member of a group gets which partitions. Pure; imports nothing else of the groups."""
