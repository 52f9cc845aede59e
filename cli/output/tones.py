"""What a text says about the health of something: good, a warning, or bad. A terminal shows it as a colour.

A toned text is a normal text, so that files, pipes and documents contain the text alone.
"""

from enum import StrEnum

NO_COLOR = "NO_COLOR"
"""The environment variable that turns colours off if it is not empty: see no-color.org. `--no-color` sets it."""


class Tone(StrEnum):
    """What a text says; the value is the style with which a terminal shows it."""

    GOOD = "green"
    WARNING = "yellow"
    BAD = "bold red"
    FAINT = "dim"


class Toned(str):
    """A text with a tone."""

    tone: Tone
    __slots__ = ("tone",)

    def __new__(cls, text: object, tone: Tone) -> "Toned":
        """Gives the tone to a text."""
        toned = super().__new__(cls, text)
        toned.tone = tone
        return toned


STATUS_NAMES = frozenset({"STATUS", "STATE"})
"""The columns and fields, in capital letters, whose values `_STATUS_TONES` describes."""
_STATUS_TONES = {
    "Offline": Tone.BAD,
    "Invalid": Tone.BAD,
    "InvalidConfig": Tone.BAD,
    "InsufficientResources": Tone.BAD,
    "Dead": Tone.BAD,
    "damaged": Tone.BAD,
    "Init": Tone.WARNING,
    "Pending": Tone.WARNING,
    "Election": Tone.WARNING,
    "CandidateFound": Tone.WARNING,
    "PreparingRebalance": Tone.WARNING,
    "CompletingRebalance": Tone.WARNING,
    "Assigning": Tone.WARNING,
    "Reconciling": Tone.WARNING,
}


def tone_of(name: str, value: object) -> Tone | None:
    """Returns the tone of a value in the column or field `name`; None for a value that is shown as usual."""
    if isinstance(value, Toned):
        return value.tone
    return _STATUS_TONES.get(str(value)) if name.upper() in STATUS_NAMES else None
