"""Gives certificates, with and without keys, to the library in the forms that it takes."""

import os
import ssl
import tempfile

_BEGIN = "-----BEGIN "


def trusted_text(pem: str) -> str:
    """Returns certificates of authorities in PEM as the `cadata` of a context. Raises OSError if there are none.

    The library takes only ASCII. Comments between the certificates may have any characters. With an empty text, the
    library would trust the authorities of the system.
    """
    text = pem.removeprefix("\ufeff").encode("ascii", "replace").decode()
    if _BEGIN not in text:
        raise OSError(f"no line begins with {_BEGIN}CERTIFICATE-----")
    return text


def client_context(trusted: str | None) -> ssl.SSLContext:
    """Returns a context for connections to servers. None trusts the authorities of the system.

    Raises OSError (`ssl.SSLError`) if there is no certificate in PEM.
    """
    context = ssl.create_default_context(cadata=None if trusted is None else trusted_text(trusted))
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    return context


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
        try:
            context.load_cert_chain(f"/proc/self/fd/{file.fileno()}", password=lambda: password)
        except ValueError as error:  # about the password
            raise OSError(str(error)) from error


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
