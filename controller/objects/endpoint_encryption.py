"""Compares what the spec of an SPU says about encryption with what the running SPU reports."""

from collections.abc import Iterator, Sequence

from tailrace.security.settings.security_protocol import SecurityProtocol

from .objects import Encryption, PublicListener, SpuSpec


def lacking_encryption(spec: SpuSpec, listeners: Sequence[PublicListener], private: SecurityProtocol) -> str | None:
    """Returns which endpoint should use TLS and does not; None if there is none. Such an SPU must not join."""
    return next((text for text, wanted in _contradictions(spec, listeners, private) if wanted is Encryption.TLS), None)


def contradiction(spec: SpuSpec, listeners: Sequence[PublicListener], private: SecurityProtocol) -> str | None:
    """Returns how an SPU contradicts its spec, or None. An endpoint that says nothing cannot be contradicted."""
    return "; ".join(text for text, _ in _contradictions(spec, listeners, private)) or None


def _contradictions(
    spec: SpuSpec, listeners: Sequence[PublicListener], private: SecurityProtocol
) -> Iterator[tuple[str, Encryption]]:
    # The first listener is the one whose port the endpoint has.
    public = [("publicEndpoint", spec.public.encryption, each.name, each.protocol) for each in listeners[:1]]
    for field, wanted, name, protocol in (*public, ("privateEndpoint", spec.private.encryption, "PRIVATE", private)):
        if wanted is not None and (wanted is Encryption.TLS) is not protocol.uses_tls:
            yield (
                f"its listener {name} uses {protocol}, but {field}.encryption says {wanted}: change "
                "listener.security.protocol.map of the SPU, or its registration",
                wanted,
            )
