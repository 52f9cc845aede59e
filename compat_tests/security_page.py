"""The examples for clients in docs/security.md, with the names and addresses of a test."""

import re
from pathlib import Path

from secured_broker import PASSWORD, USER, SecuredBroker

PAGE = (Path(__file__).parents[1] / "docs" / "security.md").read_text()


def example(heading: str, broker: SecuredBroker, topic: str) -> str:
    """Returns the code below a heading, for that broker and that topic."""
    found = re.search(rf"^### {re.escape(heading)}$.*?^```\w+\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL)
    assert found is not None, heading
    text = found[1]
    assert USER in text and PASSWORD in text
    replaced = {"127.0.0.1:9092": broker.tls_address, "./data/security/ca.pem": str(broker.authority)}
    for ours, theirs in (*replaced.items(), ('"orders"', f'"{topic}"')):
        assert ours in text or (heading, ours) == ("Java", '"orders"'), ours
        text = text.replace(ours, theirs)
    return text
