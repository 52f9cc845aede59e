"""Describes partitions, segments and controllers for people and tools; it changes nothing. May import partitions,
workflow and all that these import.
"""
