"""The settings of Java's clients that connect as `ClientSecurity` says: for Spark's Kafka source and sink.

Certificates are texts in the settings, so that other machines need no files for them.
"""

from tailrace.client.client_security import OAUTHBEARER, PLAIN, ClientSecurity

_MODULES = "org.apache.kafka.common.security"
_BEARER_HANDLER = f"{_MODULES}.oauthbearer.OAuthBearerLoginCallbackHandler"


def java_settings(security: ClientSecurity) -> dict[str, str]:
    """Returns the settings, which contain the secrets of the client."""
    settings: dict[str, str] = {}
    if not security.is_plain:
        protocol = "SSL" if security.uses_tls else "PLAINTEXT"
        settings["security.protocol"] = protocol if security.mechanism is None else f"SASL_{protocol}"
    if security.mechanism is not None:
        settings |= {"sasl.mechanism": security.mechanism, "sasl.jaas.config": _jaas(security)}
    if security.mechanism == OAUTHBEARER:
        settings["sasl.login.callback.handler.class"] = _BEARER_HANDLER
        settings["sasl.oauthbearer.token.endpoint.url"] = f"file://{security.bearer_path}"
    if security.uses_tls and not security.checks_names:
        settings["ssl.endpoint.identification.algorithm"] = ""
    if security.trusted is not None:
        settings |= {"ssl.truststore.type": "PEM", "ssl.truststore.certificates": security.trusted}
    if security.certificate is not None:
        text = security.certificate.reveal()
        settings |= {"ssl.keystore.type": "PEM", "ssl.keystore.certificate.chain": text, "ssl.keystore.key": text}
        if security.key_password.reveal():
            settings["ssl.key.password"] = security.key_password.reveal()
    return settings


def _jaas(security: ClientSecurity) -> str:
    if security.mechanism == OAUTHBEARER:
        return f"{_MODULES}.oauthbearer.OAuthBearerLoginModule required;"
    module = "plain.PlainLoginModule" if security.mechanism == PLAIN else "scram.ScramLoginModule"
    token = ' tokenauth="true"' if security.is_token else ""
    user, password = _quoted(security.user), _quoted(security.password.reveal())
    return f"{_MODULES}.{module} required username={user} password={password}{token};"


def _quoted(text: str) -> str:
    escaped = text.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'
