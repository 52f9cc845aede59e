"""TLS of listeners for tests, with certificates in simulated files."""

import structlog
from certificates import authority_pem, server_certificate
from simulation.files import SimulatedFiles

from tailrace.security.settings.setting_texts import SettingTexts
from tailrace.security.settings.tls_settings import parse_tls_settings
from tailrace.server.encryption.server_tls import ServerTls

GIVEN = {"ssl.keystore.location": "/server.pem", "ssl.truststore.location": "/ca.pem"}


async def certificate_files() -> SimulatedFiles:
    """Returns files with a server's certificate and the authority that it is from."""
    made = SimulatedFiles()
    await made.replace("/server.pem", server_certificate())
    await made.replace("/ca.pem", authority_pem())
    return made


def server_tls(files: SimulatedFiles, **given: str) -> ServerTls:
    """Returns TLS of a listener. `given` are settings, with underscores in place of dots."""
    texts = SettingTexts(GIVEN | {name.replace("_", "."): text for name, text in given.items()})
    settings = parse_tls_settings(texts, "PUBLIC", is_mutual=False)
    return ServerTls(settings, "PUBLIC", files, structlog.get_logger())
