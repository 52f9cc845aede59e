"""Loads certificates with their keys into contexts of the library, from bytes."""

import os
import ssl
import tempfile


def load_certificate(context: ssl.SSLContext, certificate: bytes, password: str = "") -> None:
    """Loads a certificate with its key, in PEM. Raises OSError (`ssl.SSLError`).

    The library takes only files, so both pass through one without a name. It is in memory if Python offers that;
    Pythons that are built for old systems do not.
    """
    descriptor = os.memfd_create("certificate") if hasattr(os, "memfd_create") else None
    with tempfile.TemporaryFile() if descriptor is None else open(descriptor, "wb") as file:
        file.write(certificate)
        file.flush()
        # Without a function, the library would ask for the password of an encrypted key on the terminal.
        context.load_cert_chain(f"/proc/self/fd/{file.fileno()}", password=lambda: password)


def pem_of_pkcs12(store: bytes, password: str) -> bytes:
    """Returns the key, if there is one, and all certificates of a store in the format PKCS12, in PEM.

    Raises ValueError if it is no such store, or the password is wrong.
    """
    from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat, pkcs12

    found = pkcs12.load_pkcs12(store, password.encode())
    parts = []
    if found.key is not None:
        parts.append(found.key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()))
    certificates = [*([] if found.cert is None else [found.cert]), *found.additional_certs]
    parts += [each.certificate.public_bytes(Encoding.PEM) for each in certificates]
    return b"".join(parts)
