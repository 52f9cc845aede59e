"""A text that must never be shown, such as the password of a key."""


class Secret:
    """A secret text. Its `repr` and `str` hide it, so that no log and no error can show it by accident."""

    __slots__ = ("_text",)

    def __init__(self, text: str) -> None:
        self._text = text

    def reveal(self) -> str:
        """Returns the text, for the code that needs it."""
        return self._text

    def __repr__(self) -> str:
        return "Secret(hidden)"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Secret) and self._text == other._text

    def __hash__(self) -> int:
        return hash(self._text)


NO_SECRET = Secret("")
