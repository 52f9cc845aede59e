"""Guesses which name was meant by a mistyped one, for the hint `did you mean …?`."""

from collections.abc import Iterable


def similar(text: str, names: Iterable[str]) -> str | None:
    """Returns the name that is most similar to `text`, or None if none is."""
    import difflib  # imported here because it is slow to load and needed only after a typing error

    close = difflib.get_close_matches(text, list(names), n=1)
    return close[0] if close else None
