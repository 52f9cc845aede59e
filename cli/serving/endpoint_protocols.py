"""What the field `encryption` of the endpoints of an SPU group means for the listeners of its SPUs. Pure."""

from collections.abc import Mapping

from tailrace.controller.objects.objects import Encryption, SpuTemplate
from tailrace.runtime.settings import SettingsError
from tailrace.security.settings.security_protocol import SecurityProtocol
from tailrace.security.settings.security_settings import (
    PRIVATE,
    PROTOCOL_MAP,
    PUBLIC,
    parse_security_settings,
)

SECURED_PROTOCOLS = "PUBLIC:SASL_SSL,PRIVATE:SSL"
"""The protocols of the listeners of a cluster that `tailrace up --secure` has closed."""


def with_encryption(broker: Mapping[str, str], public: Encryption | None) -> Mapping[str, str]:
    """Returns the settings of an SPU whose public endpoint uses TLS if `public` says so.

    The endpoint never becomes less protected than the settings say. Wrong settings stay as they are: the SPU refuses
    them when it starts.
    """
    if public is not Encryption.TLS:
        return broker
    try:
        settings = parse_security_settings(broker)
    except SettingsError:
        return broker
    protocol = settings.protocol_of(PUBLIC)
    if protocol.uses_tls:
        return broker
    encrypted = SecurityProtocol.SASL_SSL if protocol.uses_sasl else SecurityProtocol.SSL
    protocols = {**settings.protocols, PUBLIC: encrypted}
    return {**broker, PROTOCOL_MAP: ",".join(f"{name}:{each}" for name, each in protocols.items())}


def refusal_of_encryption(broker: Mapping[str, str], template: SpuTemplate, *, has_certificates: bool) -> str | None:
    """Returns why the endpoints of a group cannot be protected as its template says; None if they can.

    `broker` are the settings of its SPUs. `has_certificates` says that `tailrace up` makes certificates for them.
    """
    public, private = template.public.encryption, template.private.encryption
    try:
        settings = parse_security_settings(broker)
        if public is Encryption.TLS and not has_certificates:
            parse_security_settings(with_encryption(broker, public)).listener(PUBLIC)
    except SettingsError as error:
        return None if public is None else f"template.publicEndpoint.encryption: {error}"
    clients, servers = settings.protocol_of(PUBLIC), settings.protocol_of(PRIVATE)
    if public is Encryption.PLAINTEXT and clients.uses_tls:
        return (
            f"template.publicEndpoint.encryption: PLAINTEXT would open a listener that {PROTOCOL_MAP} protects with "
            f"{clients}; leave it out"
        )
    if private is not None and (private is Encryption.TLS) is not servers.uses_tls:
        return (
            f"template.privateEndpoint.encryption: {private} is not possible, because the private ports of all servers "
            f"use {servers}; leave it out, or start `tailrace up` with another PRIVATE in {PROTOCOL_MAP}"
        )
    return None
