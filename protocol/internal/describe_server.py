"""DescribeServerRequest and DescribeServerResponse, over all versions. Written by `tailrace.protocol.generate`: change the schema, not this."""

from typing import ClassVar

from msgspec import Struct, field

from tailrace.protocol.codec.fields import Field


class DescribeServerRequest(Struct):
    """Versions 0, flexible: 0+."""

    API_KEY: ClassVar[int] = 13000
    VERSIONS: ClassVar[str] = "0"
    FLEXIBLE: ClassVar[str] = "0+"
    FIELDS: ClassVar[tuple[Field, ...]] = ()


class Library(Struct):
    """Inside DescribeServerResponse."""

    name: str = ""
    version: str = ""

    FIELDS: ClassVar[tuple[Field, ...]] = (
        Field("name", "string", "0+"),
        Field("version", "string", "0+"),
    )


class ServerListener(Struct):
    """Inside DescribeServerResponse."""

    name: str = ""
    host: str = ""
    port: int = 0

    FIELDS: ClassVar[tuple[Field, ...]] = (
        Field("name", "string", "0+"),
        Field("host", "string", "0+"),
        Field("port", "int32", "0+"),
    )


class ServerCertificate(Struct):
    """Inside DescribeServerResponse."""

    listener: str = ""
    name: str = ""
    is_authority: bool = False
    expires_ms: int = 0

    FIELDS: ClassVar[tuple[Field, ...]] = (
        Field("listener", "string", "0+"),
        Field("name", "string", "0+"),
        Field("is_authority", "bool", "0+"),
        Field("expires_ms", "int64", "0+"),
    )


class DescribeServerResponse(Struct):
    """Versions 0, flexible: 0+."""

    spu_id: int = 0
    cluster_id: str = ""
    now_ms: int = 0
    software_version: str = ""
    python_version: str = ""
    libraries: list[Library] = field(default_factory=list)
    listeners: list[ServerListener] = field(default_factory=list)
    descriptors_used: int = 0
    descriptors_max: int = 0
    memory_used: int = 0
    memory_max: int = 0
    data_directory: str = ""
    disk_bytes: int = 0
    disk_free_bytes: int = 0
    storage_used: int = 0
    storage_max: int = -1
    certificates: list[ServerCertificate] = field(default_factory=list)
    error_code: int = 0
    error_message: str | None = None

    API_KEY: ClassVar[int] = 13000
    VERSIONS: ClassVar[str] = "0"
    FLEXIBLE: ClassVar[str] = "0+"
    FIELDS: ClassVar[tuple[Field, ...]] = (
        Field("spu_id", "int32", "0+"),
        Field("cluster_id", "string", "0+"),
        Field("now_ms", "int64", "0+"),
        Field("software_version", "string", "0+"),
        Field("python_version", "string", "0+"),
        Field("libraries", Library, "0+", array=True),
        Field("listeners", ServerListener, "0+", array=True),
        Field("descriptors_used", "int64", "0+"),
        Field("descriptors_max", "int64", "0+"),
        Field("memory_used", "int64", "0+"),
        Field("memory_max", "int64", "0+"),
        Field("data_directory", "string", "0+"),
        Field("disk_bytes", "int64", "0+"),
        Field("disk_free_bytes", "int64", "0+"),
        Field("storage_used", "int64", "0+"),
        Field("storage_max", "int64", "0+"),
        Field("certificates", ServerCertificate, "0+", array=True, tag=2, tagged="0+"),
        Field("error_code", "int16", "0+", tag=0, tagged="0+"),
        Field("error_message", "string", "0+", nullable="0+", tag=1, tagged="0+"),
    )
