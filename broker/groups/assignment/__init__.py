"""Assignors, which distribute partitions over the members of a group.

Pure; imports nothing else of the groups.
"""
