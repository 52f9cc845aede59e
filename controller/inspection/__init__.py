"""Describes partitions, segments and controllers for people and tools. Changes nothing."""
