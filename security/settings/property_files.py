"""Files with lines `name=value`, as Kafka's tools take them, and the PEM files that they name."""

import re

from tailrace.runtime.files import Files
from tailrace.runtime.settings import SettingsError


def parse_properties(text: str) -> dict[str, str]:
    """Parses `name=value` lines. A line that ends with a backslash goes on in the next one; # begins a comment."""
    found: dict[str, str] = {}
    for line in re.sub(r"\\\r?\n[ \t]*", "", text).splitlines():
        line = line.strip()
        if not line or line[0] in "#!":
            continue
        name, equals, value = line.partition("=")
        if not equals:
            raise SettingsError(f"the line {name.split()[0][:50]!r}… is not NAME=VALUE")
        found[name.strip()] = value.strip()
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
