"""CreateDelegationTokenRequest and CreateDelegationTokenResponse, over all versions. Written by `tailrace.protocol.generate`: change the schema, not this."""

from typing import ClassVar

from msgspec import Struct, field

from tailrace.protocol.codec.fields import Field


class CreatableRenewers(Struct):
    """Inside CreateDelegationTokenRequest."""

    principal_type: str = ""
    principal_name: str = ""

    FIELDS: ClassVar[tuple[Field, ...]] = (
        Field("principal_type", "string", "1+"),
        Field("principal_name", "string", "1+"),
    )


class CreateDelegationTokenRequest(Struct):
    """Versions 1-3, flexible: 2+."""

    owner_principal_type: str | None = ""
    owner_principal_name: str | None = ""
    renewers: list[CreatableRenewers] = field(default_factory=list)
    max_lifetime_ms: int = 0

    API_KEY: ClassVar[int] = 38
    VERSIONS: ClassVar[str] = "1-3"
    FLEXIBLE: ClassVar[str] = "2+"
    FIELDS: ClassVar[tuple[Field, ...]] = (
        Field("owner_principal_type", "string", "3+", nullable="3+"),
        Field("owner_principal_name", "string", "3+", nullable="3+"),
        Field("renewers", CreatableRenewers, "1+", array=True),
        Field("max_lifetime_ms", "int64", "1+"),
    )


class CreateDelegationTokenResponse(Struct):
    """Versions 1-3, flexible: 2+."""

    error_code: int = 0
    principal_type: str = ""
    principal_name: str = ""
    token_requester_principal_type: str = ""
    token_requester_principal_name: str = ""
    issue_timestamp_ms: int = 0
    expiry_timestamp_ms: int = 0
    max_timestamp_ms: int = 0
    token_id: str = ""
    hmac: bytes = b""
    throttle_time_ms: int = 0

    API_KEY: ClassVar[int] = 38
    VERSIONS: ClassVar[str] = "1-3"
    FLEXIBLE: ClassVar[str] = "2+"
    FIELDS: ClassVar[tuple[Field, ...]] = (
        Field("error_code", "int16", "1+"),
        Field("principal_type", "string", "1+"),
        Field("principal_name", "string", "1+"),
        Field("token_requester_principal_type", "string", "3+"),
        Field("token_requester_principal_name", "string", "3+"),
        Field("issue_timestamp_ms", "int64", "1+"),
        Field("expiry_timestamp_ms", "int64", "1+"),
        Field("max_timestamp_ms", "int64", "1+"),
        Field("token_id", "string", "1+"),
        Field("hmac", "bytes", "1+"),
        Field("throttle_time_ms", "int32", "1+"),
    )
