"""PingMessage, over all versions. Written by `tailrace.protocol.generate`: change the schema, not this."""

from dataclasses import dataclass
from typing import ClassVar

from tailrace.protocol.fields import Field


@dataclass(slots=True)
class PingMessage:
    """Versions 0, flexible: 0+."""

    API_KEY: ClassVar[int] = 10110
    VERSIONS: ClassVar[str] = "0"
    FLEXIBLE: ClassVar[str] = "0+"
    FIELDS: ClassVar[tuple[Field, ...]] = ()
