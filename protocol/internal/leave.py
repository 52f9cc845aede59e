"""LeaveRequest and LeaveResponse, over all versions. Written by `tailrace.protocol.generate`: change the schema, not this."""

from dataclasses import dataclass
from typing import ClassVar

from tailrace.protocol.fields import Field


@dataclass(slots=True)
class LeaveRequest:
    """Versions 0, flexible: 0+."""

    API_KEY: ClassVar[int] = 10002
    VERSIONS: ClassVar[str] = "0"
    FLEXIBLE: ClassVar[str] = "0+"
    FIELDS: ClassVar[tuple[Field, ...]] = ()


@dataclass(slots=True)
class LeaveResponse:
    """Versions 0, flexible: 0+."""

    API_KEY: ClassVar[int] = 10002
    VERSIONS: ClassVar[str] = "0"
    FLEXIBLE: ClassVar[str] = "0+"
    FIELDS: ClassVar[tuple[Field, ...]] = ()
