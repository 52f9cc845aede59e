"""IntroduceMessage, over all versions. Written by `tailrace.protocol.generate`: change the schema, not this."""

from typing import ClassVar

from msgspec import Struct

from tailrace.protocol.codec.fields import Field


class IntroduceMessage(Struct):
    """Versions 0, flexible: 0+."""

    cluster_id: str = ""
    spu_id: int = 0
    incarnation: str = ""
    process: str = ""
    for_requests: bool = False

    API_KEY: ClassVar[int] = 10100
    VERSIONS: ClassVar[str] = "0"
    FLEXIBLE: ClassVar[str] = "0+"
    FIELDS: ClassVar[tuple[Field, ...]] = (
        Field("cluster_id", "string", "0+"),
        Field("spu_id", "int32", "0+"),
        Field("incarnation", "string", "0+"),
        Field("process", "string", "0+"),
        Field("for_requests", "bool", "0+", tag=0, tagged="0+"),
    )
