"""DescribeDelegationTokenRequest and DescribeDelegationTokenResponse, over all versions. Written by `tailrace.protocol.generate`: change the schema, not this."""

from typing import ClassVar

from msgspec import Struct, field

from tailrace.protocol.codec.fields import Field


class DescribeDelegationTokenOwner(Struct):
    """Inside DescribeDelegationTokenRequest."""

    principal_type: str = ""
    principal_name: str = ""

    FIELDS: ClassVar[tuple[Field, ...]] = (
        Field("principal_type", "string", "1+"),
        Field("principal_name", "string", "1+"),
    )


class DescribeDelegationTokenRequest(Struct):
    """Versions 1-3, flexible: 2+."""

    owners: list[DescribeDelegationTokenOwner] | None = field(default_factory=list)

    API_KEY: ClassVar[int] = 41
    VERSIONS: ClassVar[str] = "1-3"
    FLEXIBLE: ClassVar[str] = "2+"
    FIELDS: ClassVar[tuple[Field, ...]] = (
        Field("owners", DescribeDelegationTokenOwner, "1+", array=True, nullable="1+"),
    )


class DescribedDelegationTokenRenewer(Struct):
    """Inside DescribeDelegationTokenResponse."""

    principal_type: str = ""
    principal_name: str = ""

    FIELDS: ClassVar[tuple[Field, ...]] = (
        Field("principal_type", "string", "1+"),
        Field("principal_name", "string", "1+"),
    )


class DescribedDelegationToken(Struct):
    """Inside DescribeDelegationTokenResponse."""

    principal_type: str = ""
    principal_name: str = ""
    token_requester_principal_type: str = ""
    token_requester_principal_name: str = ""
    issue_timestamp: int = 0
    expiry_timestamp: int = 0
    max_timestamp: int = 0
    token_id: str = ""
    hmac: bytes = b""
    renewers: list[DescribedDelegationTokenRenewer] = field(default_factory=list)

    FIELDS: ClassVar[tuple[Field, ...]] = (
        Field("principal_type", "string", "1+"),
        Field("principal_name", "string", "1+"),
        Field("token_requester_principal_type", "string", "3+"),
        Field("token_requester_principal_name", "string", "3+"),
        Field("issue_timestamp", "int64", "1+"),
        Field("expiry_timestamp", "int64", "1+"),
        Field("max_timestamp", "int64", "1+"),
        Field("token_id", "string", "1+"),
        Field("hmac", "bytes", "1+"),
        Field("renewers", DescribedDelegationTokenRenewer, "1+", array=True),
    )


class DescribeDelegationTokenResponse(Struct):
    """Versions 1-3, flexible: 2+."""

    error_code: int = 0
    tokens: list[DescribedDelegationToken] = field(default_factory=list)
    throttle_time_ms: int = 0

    API_KEY: ClassVar[int] = 41
    VERSIONS: ClassVar[str] = "1-3"
    FLEXIBLE: ClassVar[str] = "2+"
    FIELDS: ClassVar[tuple[Field, ...]] = (
        Field("error_code", "int16", "1+"),
        Field("tokens", DescribedDelegationToken, "1+", array=True),
        Field("throttle_time_ms", "int32", "1+"),
    )
