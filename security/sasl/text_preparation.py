"""SASLprep (RFC 4013): the one form of names and passwords that can be written in several ways.

The clients of Kafka send names and passwords as they were typed, without SASLprep; other implementations of SCRAM apply
it. A text that SASLprep leaves as it is works with both, so we create users with such names and passwords only.
"""

import stringprep
import unicodedata

_PROHIBITED = (
    stringprep.in_table_c12,
    stringprep.in_table_c21_c22,
    stringprep.in_table_c3,
    stringprep.in_table_c4,
    stringprep.in_table_c5,
    stringprep.in_table_c6,
    stringprep.in_table_c7,
    stringprep.in_table_c8,
    stringprep.in_table_c9,
)


class PreparationError(Exception):
    """A text has characters that names and passwords may not have. The message does not repeat them."""


def prepare(text: str) -> str:
    """Returns the form that SASLprep gives a text. Raises PreparationError."""
    mapped = "".join(
        " " if stringprep.in_table_c12(character) else character
        for character in text
        if not stringprep.in_table_b1(character)
    )
    prepared = unicodedata.normalize("NFKC", mapped)
    for character in prepared:
        if any(is_prohibited(character) for is_prohibited in _PROHIBITED):
            raise PreparationError("it has a character that names and passwords may not have, such as a control code")
        if stringprep.in_table_a1(character):
            raise PreparationError("it has a character that Unicode 3.2 does not know, which some clients refuse")
    if any(map(stringprep.in_table_d1, prepared)):
        is_mixed = any(map(stringprep.in_table_d2, prepared))
        if is_mixed or not (stringprep.in_table_d1(prepared[0]) and stringprep.in_table_d1(prepared[-1])):
            raise PreparationError("it mixes text that runs from right to left with other text")
    return prepared


def check_text(text: str) -> None:
    """Raises PreparationError if clients may send a name or password in different forms."""
    if not text:
        raise PreparationError("it is empty")
    if prepare(text) != text:
        raise PreparationError("it has characters that clients write in different ways; use their usual form")
