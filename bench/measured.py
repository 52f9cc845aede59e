"""What a piece of work tells, by the names of the figures, and how long it may take."""

Measured = dict[str, float]
SECONDS_MAX = 60.0
