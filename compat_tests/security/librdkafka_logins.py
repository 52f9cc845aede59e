"""Settings of clients of librdkafka for each way to prove who they are."""

import time
from typing import Any

from secured_broker import CERTIFICATE, PASSWORD, USER, SecuredBroker


def librdkafka(broker: SecuredBroker, protocol: str, mechanism: str, password: str = PASSWORD) -> dict[str, Any]:
    """Returns the settings of a client of librdkafka."""
    settings: dict[str, Any] = {
        "bootstrap.servers": broker.address(protocol),
        "security.protocol": protocol,
        "ssl.ca.location": str(broker.authority),
    }
    if mechanism == CERTIFICATE:
        path = str(broker.certificate)
        return settings | {"ssl.certificate.location": path, "ssl.key.location": path}
    settings["sasl.mechanism"] = mechanism
    if mechanism == "OAUTHBEARER":
        token = broker.token if password == PASSWORD else "e30.e30."
        return settings | {"oauth_cb": lambda _: (token, time.time() + 3600)}
    return settings | {"sasl.username": USER, "sasl.password": password}
