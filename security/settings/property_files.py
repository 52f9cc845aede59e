"""Files with lines `name=value`, as Kafka's tools take them, and the PEM files that they name."""

import re

from tailrace.runtime.files import Files
from tailrace.runtime.settings import SettingsError

_LINE_END = re.compile(r"(?<!\\)\n")
"""The end of a line that does not go on in the next one."""


def parse_properties(text: str) -> dict[str, str]:
    """Parses `name=value` lines. A line that ends with a backslash goes on in the next one; # begins a comment.

    An error names the number of the line only, because the line may contain a password. Raises SettingsError.
    """
    found: dict[str, str] = {}
    number = 1
    for lines in _LINE_END.split(re.sub(r"\r\n?", "\n", text)):
        line = re.sub(r"\\\n[ \t]*", "", lines).strip()
        if line and line[0] not in "#!":
            name, equals, value = line.partition("=")
            if not equals:
                raise SettingsError(f"line {number} is not NAME=VALUE")
            found[name.strip()] = value.strip()
        number += 1 + lines.count("\n")
    return found


def read_text(path: str, files: Files) -> str:
    """Reads a whole text file. Raises SettingsError."""
    try:
        return files.read(path).decode()
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it is not text"
        raise SettingsError(f"{path[:300]} cannot be read: {reason}") from None


def read_pem(path: str, files: Files) -> str:
    """Reads a whole PEM file, whose comments may have any bytes. Raises SettingsError."""
    try:
        return files.read(path).decode(errors="replace")
    except OSError as error:
        raise SettingsError(f"{path[:300]} cannot be read: {error.strerror}") from None
