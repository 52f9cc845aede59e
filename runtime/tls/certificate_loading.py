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
