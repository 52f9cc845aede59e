"""Sentences for errors of the TLS library, for log lines about handshakes that failed."""

import ssl

_NO_TLS = frozenset(
    {"WRONG_VERSION_NUMBER", "HTTP_REQUEST", "HTTPS_PROXY_REQUEST", "UNEXPECTED_MESSAGE", "UNKNOWN_PROTOCOL"}
)
"""What the library says if the first bytes are not those of TLS."""
_ADVICE = {
    "NO_SHARED_CIPHER": "client and server have no cipher in common",
    "UNSUPPORTED_PROTOCOL": "the client offers only versions of TLS that this server refuses; it takes 1.2 and 1.3",
    "PEER_DID_NOT_RETURN_A_CERTIFICATE": "the client has shown no certificate, and the listener requires one",
    "TLSV1_ALERT_UNKNOWN_CA": "the client does not trust the certificate of this server",
    "SSLV3_ALERT_CERTIFICATE_UNKNOWN": "the client refuses the certificate of this server",
    "SSLV3_ALERT_BAD_CERTIFICATE": "the client refuses the certificate of this server",
    "SSLV3_ALERT_CERTIFICATE_EXPIRED": "the client says that the certificate of this server has expired",
}
"""What errors of the library mean, where its own words do not help."""


def refusal_of(error: Exception) -> str:
    """Returns a sentence that says why there was no handshake."""
    if isinstance(error, ssl.SSLCertVerificationError):
        return f"the certificate of the peer is not accepted: {error.verify_message}"
    if isinstance(error, ssl.SSLEOFError):
        return "the peer closed the connection during the handshake"
    if isinstance(error, ssl.SSLError):
        reason = error.reason or str(error)
        if reason in _NO_TLS:
            return "the client does not speak TLS: set security.protocol=SSL in the client"
        return _ADVICE.get(reason, reason.replace("_", " ").lower())
    return str(error)
