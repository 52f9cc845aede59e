"""Adds roll-ups of records, and shows them. It needs no package for columns, so commands can import it."""

ROLLUP_END = 2**64
"""A roll-up is below this number."""


def add(*rollups: int) -> int:
    """Returns the roll-up of the records of all parts."""
    return sum(rollups) % ROLLUP_END


def rollup_text(rollup: int) -> str:
    """Returns a roll-up as 16 hexadecimal digits."""
    return f"{rollup:016x}"
