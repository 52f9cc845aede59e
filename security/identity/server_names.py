"""The names of our own servers in their certificates: `spu-7.tailrace` for SPU 7, and `sc.tailrace` for the SC.

They are DNS names among the alternative names of the subject. So a certificate may have the host names for clients too.
"""

from collections.abc import Iterable, Mapping

from .principal import SERVER, Principal

SC_NAME = "sc.tailrace"


def spu_name(spu: int) -> str:
    """Returns the name of an SPU."""
    return f"spu-{spu}.tailrace"


def spu_principal(spu: int) -> Principal:
    """Returns the principal of an SPU that sends requests. No client can have it."""
    return Principal(SERVER, f"spu-{spu}")


def names_in(certificate: Mapping[str, object]) -> frozenset[str]:
    """Returns the DNS names in a certificate, as Python's ssl module shows it."""
    found = certificate.get("subjectAltName", ())
    assert isinstance(found, Iterable)
    return frozenset(name for kind, name in found if kind == "DNS")
