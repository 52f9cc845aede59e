"""Watches how long the certificates of a server are valid, so that people renew them in time.

What counts are the certificate of the server, those between it and its authority, and the authority itself if the
server knows it. Of these, the first one to expire is the one to know.
"""

from collections.abc import Mapping

import trio
from msgspec import Struct

from tailrace.runtime.logs import FilteringBoundLogger
from tailrace.runtime.wall_clock import WallClock
from tailrace.security.certificates.certificate_facts import CertificateFacts, readable_facts

from .server_tls import ServerTls, TlsMaterial

DAYS_LEFT_MIN = 30
"""With fewer days left, the log warns."""
CHECK_SECONDS = 86_400.0
"""How often the log warns."""


class ListenerCertificate(Struct, frozen=True):
    """The certificate of a listener that expires first."""

    listener: str
    facts: CertificateFacts


class CertificateWatch:
    """Knows when the certificates of all encrypted listeners expire, also after their files have changed."""

    def __init__(self, listeners: Mapping[str, ServerTls], wall_clock: WallClock, logger: FilteringBoundLogger) -> None:
        self._listeners = listeners
        self._wall_clock = wall_clock
        self._logger = logger
        self._known: dict[str, tuple[TlsMaterial, CertificateFacts | None]] = {}
        """What was found last, by listener, because it is asked for often and changes rarely."""

    def certificates(self) -> list[ListenerCertificate]:
        """Returns the certificates that expire first, one of each listener."""
        found = []
        for name, tls in self._listeners.items():
            facts = self._facts(name, tls.current_material())
            if facts is not None:
                found.append(ListenerCertificate(name, facts))
        return found

    def expiries(self) -> dict[str, int]:
        """Returns when the certificates expire, in milliseconds since 1970, by listener."""
        return {each.listener: each.facts.valid_to_ms for each in self.certificates()}

    async def run(self) -> None:
        """Warns in the log, at the start and every day, until it is cancelled."""
        while True:
            self._warn()
            await trio.sleep(CHECK_SECONDS)

    def _facts(self, listener: str, material: TlsMaterial) -> CertificateFacts | None:
        known = self._known.get(listener)
        if known is None or known[0] is not material:
            known = self._known[listener] = (material, first_to_expire(material))
        return known[1]

    def _warn(self) -> None:
        now_ms = self._wall_clock.now_ms()
        warned: dict[str, tuple[CertificateFacts, list[str]]] = {}
        for each in self.certificates():
            if each.facts.days_left(now_ms) < DAYS_LEFT_MIN:
                warned.setdefault(each.facts.fingerprint, (each.facts, []))[1].append(each.listener)
        for facts, listeners in warned.values():
            logger = self._logger.bind(certificate=facts.name, is_authority=facts.is_authority, listeners=listeners)
            if facts.valid_to_ms <= now_ms:
                logger.error("certificate_expired")
            else:
                logger.warning("certificate_expires", days_left=facts.days_left(now_ms))


def first_to_expire(material: TlsMaterial) -> CertificateFacts | None:
    """Returns the certificate that expires first: of the server, of those above it, and of its authority.

    If the authority has several certificates, the one that is valid for longest counts. A certificate that
    cannot be read does not count. Returns None if none of the server's can be read.
    """
    own = readable_facts(material.certificate)
    if not own:
        return None
    trusted = readable_facts(material.trusted.encode(errors="replace"))
    issuers = {each.issuer for each in own} - {each.name for each in own}
    above = {each.name: each for each in sorted(trusted, key=lambda each: each.valid_to_ms) if each.name in issuers}
    return min((*own, *above.values()), key=lambda each: each.valid_to_ms)
