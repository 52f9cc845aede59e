"""The result of a piece of work, as figures by name, and its time limit."""

Measured = dict[str, float]
SECONDS_MAX = 60.0
