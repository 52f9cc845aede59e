"""AlterUserScramCredentialsRequest and AlterUserScramCredentialsResponse, over all versions. Written by `tailrace.protocol.generate`: change the schema, not this."""

from typing import ClassVar

from msgspec import Struct, field

from tailrace.protocol.codec.fields import Field


class ScramCredentialDeletion(Struct):
    """Inside AlterUserScramCredentialsRequest."""

    name: str = ""
    mechanism: int = 0

    FIELDS: ClassVar[tuple[Field, ...]] = (
        Field("name", "string", "0+"),
        Field("mechanism", "int8", "0+"),
    )


class ScramCredentialUpsertion(Struct):
    """Inside AlterUserScramCredentialsRequest."""

    name: str = ""
    mechanism: int = 0
    iterations: int = 0
    salt: bytes = b""
    salted_password: bytes = b""

    FIELDS: ClassVar[tuple[Field, ...]] = (
        Field("name", "string", "0+"),
        Field("mechanism", "int8", "0+"),
        Field("iterations", "int32", "0+"),
        Field("salt", "bytes", "0+"),
        Field("salted_password", "bytes", "0+"),
    )


class AlterUserScramCredentialsRequest(Struct):
    """Versions 0, flexible: 0+."""

    deletions: list[ScramCredentialDeletion] = field(default_factory=list)
    upsertions: list[ScramCredentialUpsertion] = field(default_factory=list)

    API_KEY: ClassVar[int] = 51
    VERSIONS: ClassVar[str] = "0"
    FLEXIBLE: ClassVar[str] = "0+"
    FIELDS: ClassVar[tuple[Field, ...]] = (
        Field("deletions", ScramCredentialDeletion, "0+", array=True),
        Field("upsertions", ScramCredentialUpsertion, "0+", array=True),
    )


class AlterUserScramCredentialsResult(Struct):
    """Inside AlterUserScramCredentialsResponse."""

    user: str = ""
    error_code: int = 0
    error_message: str | None = ""

    FIELDS: ClassVar[tuple[Field, ...]] = (
        Field("user", "string", "0+"),
        Field("error_code", "int16", "0+"),
        Field("error_message", "string", "0+", nullable="0+"),
    )


class AlterUserScramCredentialsResponse(Struct):
    """Versions 0, flexible: 0+."""

    throttle_time_ms: int = 0
    results: list[AlterUserScramCredentialsResult] = field(default_factory=list)

    API_KEY: ClassVar[int] = 51
    VERSIONS: ClassVar[str] = "0"
    FLEXIBLE: ClassVar[str] = "0+"
    FIELDS: ClassVar[tuple[Field, ...]] = (
        Field("throttle_time_ms", "int32", "0+"),
        Field("results", AlterUserScramCredentialsResult, "0+", array=True),
    )
