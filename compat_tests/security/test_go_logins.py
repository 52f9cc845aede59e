"""franz-go and sarama, which share no code with other clients, prove who they are in every way."""

import json
from pathlib import Path

import pytest
from other_languages.programs import GO
from secured_broker import CERTIFICATE, PASSWORD, USER, WAYS, SecuredBroker
from topics import topic_creator

FORGED_TOKEN = "e30.e30."


def login(broker: SecuredBroker, protocol: str, mechanism: str, password: str = PASSWORD) -> dict[str, str]:
    """Returns how a program logs in."""
    found = {"address": broker.address(protocol)}
    if protocol.endswith("SSL"):
        found["authority"] = str(broker.authority)
    if mechanism == CERTIFICATE:
        return found | {"certificate": str(broker.certificate)}
    token = broker.token if password == PASSWORD else FORGED_TOKEN
    return found | {"mechanism": mechanism, "user": USER, "password": password, "token": token}


@pytest.mark.parametrize("program", ["franz_go_logins", "sarama_logins"])
def test_a_client_proves_who_it_is_in_every_way(secured: SecuredBroker, program: str, tmp_path: Path) -> None:
    if not GO.is_installed():
        pytest.skip("no go on this machine")
    topic = topic_creator(secured.open_address, program)()
    stranger = {"address": secured.certificate_address, "authority": str(secured.authority)}
    refused = [login(secured, "SASL_SSL", mechanism, "wrong") for mechanism in ("SCRAM-SHA-512", "OAUTHBEARER")]
    logins = tmp_path / "logins.json"
    logins.write_text(json.dumps([*(login(secured, *way) for way in WAYS), *refused, stranger]))

    said = GO.run(program, topic, str(logins)).values

    assert dict(zip(WAYS, said, strict=False)) == dict.fromkeys(WAYS, "served")
    wrong_password, forged_token, no_certificate = said[len(WAYS) :]
    assert wrong_password.startswith("refused: ") and "authentication" in wrong_password
    assert forged_token.startswith("refused: ") and ("authentication" in forged_token or "oauth" in forged_token)
    assert no_certificate.startswith("refused: ")
