"""RegisterSpuRequest and RegisterSpuResponse, over all versions. Written by `tailrace.protocol.generate`: change the schema, not this."""

from typing import ClassVar

from msgspec import Struct, field

from tailrace.protocol.codec.fields import Field


class RegisteredListener(Struct):
    """Inside RegisterSpuRequest."""

    name: str = ""
    host: str = ""
    port: int = 0
    on_all_addresses: bool = False
    security_protocol: str = "PLAINTEXT"

    FIELDS: ClassVar[tuple[Field, ...]] = (
        Field("name", "string", "0+"),
        Field("host", "string", "0+"),
        Field("port", "int32", "0+"),
        Field("on_all_addresses", "bool", "0+", tag=0, tagged="0+"),
        Field("security_protocol", "string", "0+", tag=1, tagged="0+"),
    )


class RegisterSpuRequest(Struct):
    """Versions 0, flexible: 0+."""

    spu_id: int = 0
    incarnation: str = ""
    store_incarnation: str = ""
    stopped_cleanly: bool = False
    software_version: str = ""
    listeners: list[RegisteredListener] = field(default_factory=list)
    private_host: str = ""
    private_port: int = 0
    private_security_protocol: str = "PLAINTEXT"

    API_KEY: ClassVar[int] = 10000
    VERSIONS: ClassVar[str] = "0"
    FLEXIBLE: ClassVar[str] = "0+"
    FIELDS: ClassVar[tuple[Field, ...]] = (
        Field("spu_id", "int32", "0+"),
        Field("incarnation", "string", "0+"),
        Field("store_incarnation", "string", "0+"),
        Field("stopped_cleanly", "bool", "0+"),
        Field("software_version", "string", "0+"),
        Field("listeners", RegisteredListener, "0+", array=True),
        Field("private_host", "string", "0+"),
        Field("private_port", "int32", "0+"),
        Field("private_security_protocol", "string", "0+", tag=0, tagged="0+"),
    )


class RegisterSpuResponse(Struct):
    """Versions 0, flexible: 0+."""

    error_code: int = 0
    error_message: str | None = None
    cluster_id: str = ""
    lease_ms: int = 0
    heartbeat_ms: int = 0

    API_KEY: ClassVar[int] = 10000
    VERSIONS: ClassVar[str] = "0"
    FLEXIBLE: ClassVar[str] = "0+"
    FIELDS: ClassVar[tuple[Field, ...]] = (
        Field("error_code", "int16", "0+"),
        Field("error_message", "string", "0+", nullable="0+"),
        Field("cluster_id", "string", "0+"),
        Field("lease_ms", "int32", "0+"),
        Field("heartbeat_ms", "int32", "0+"),
    )
