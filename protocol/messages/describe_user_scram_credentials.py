"""DescribeUserScramCredentialsRequest and DescribeUserScramCredentialsResponse, over all versions. Written by `tailrace.protocol.generate`: change the schema, not this."""

from typing import ClassVar

from msgspec import Struct, field

from tailrace.protocol.codec.fields import Field


class UserName(Struct):
    """Inside DescribeUserScramCredentialsRequest."""

    name: str = ""

    FIELDS: ClassVar[tuple[Field, ...]] = (
        Field("name", "string", "0+"),
    )


class DescribeUserScramCredentialsRequest(Struct):
    """Versions 0, flexible: 0+."""

    users: list[UserName] | None = field(default_factory=list)

    API_KEY: ClassVar[int] = 50
    VERSIONS: ClassVar[str] = "0"
    FLEXIBLE: ClassVar[str] = "0+"
    FIELDS: ClassVar[tuple[Field, ...]] = (
        Field("users", UserName, "0+", array=True, nullable="0+"),
    )


class CredentialInfo(Struct):
    """Inside DescribeUserScramCredentialsResponse."""

    mechanism: int = 0
    iterations: int = 0

    FIELDS: ClassVar[tuple[Field, ...]] = (
        Field("mechanism", "int8", "0+"),
        Field("iterations", "int32", "0+"),
    )


class DescribeUserScramCredentialsResult(Struct):
    """Inside DescribeUserScramCredentialsResponse."""

    user: str = ""
    error_code: int = 0
    error_message: str | None = ""
    credential_infos: list[CredentialInfo] = field(default_factory=list)

    FIELDS: ClassVar[tuple[Field, ...]] = (
        Field("user", "string", "0+"),
        Field("error_code", "int16", "0+"),
        Field("error_message", "string", "0+", nullable="0+"),
        Field("credential_infos", CredentialInfo, "0+", array=True),
    )


class DescribeUserScramCredentialsResponse(Struct):
    """Versions 0, flexible: 0+."""

    throttle_time_ms: int = 0
    error_code: int = 0
    error_message: str | None = ""
    results: list[DescribeUserScramCredentialsResult] = field(default_factory=list)

    API_KEY: ClassVar[int] = 50
    VERSIONS: ClassVar[str] = "0"
    FLEXIBLE: ClassVar[str] = "0+"
    FIELDS: ClassVar[tuple[Field, ...]] = (
        Field("throttle_time_ms", "int32", "0+"),
        Field("error_code", "int16", "0+"),
        Field("error_message", "string", "0+", nullable="0+"),
        Field("results", DescribeUserScramCredentialsResult, "0+", array=True),
    )
