"""Distinguished names of certificates as text, as Java and therefore Apache Kafka write them (RFC 2253).

An example is `CN=alice,OU=Sales,O=Example,C=DE`: the most specific part comes first, whereas a certificate has it last.
"""

from collections.abc import Sequence

_KEYWORDS = {
    "commonName": "CN",
    "countryName": "C",
    "localityName": "L",
    "stateOrProvinceName": "ST",
    "organizationName": "O",
    "organizationalUnitName": "OU",
    "streetAddress": "STREET",
    "domainComponent": "DC",
    "userId": "UID",
}
"""The attributes that have a short name in RFC 2253, by their names in OpenSSL."""
_OTHER_IDS = {
    "emailAddress": "1.2.840.113549.1.9.1",
    "serialNumber": "2.5.4.5",
    "title": "2.5.4.12",
    "givenName": "2.5.4.42",
    "surname": "2.5.4.4",
    "initials": "2.5.4.43",
    "generationQualifier": "2.5.4.44",
    "dnQualifier": "2.5.4.46",
    "pseudonym": "2.5.4.65",
    "name": "2.5.4.41",
    "description": "2.5.4.13",
    "businessCategory": "2.5.4.15",
    "postalCode": "2.5.4.17",
    "organizationIdentifier": "2.5.4.97",
}
"""The ids of further attributes, whose values are written in hexadecimal."""
_ESCAPED = frozenset(',+"\\<>;')
_IA5, _PRINTABLE, _UTF8 = 0x16, 0x13, 0x0C
_PRINTABLE_CHARACTERS = frozenset("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789 '()+,-./:=?")

Subject = Sequence[Sequence[tuple[str, str]]]
"""A name as Python's ssl module returns it: parts, each with one or more attributes."""


def name_of_subject(subject: Subject) -> str:
    """Returns the text of a distinguished name."""
    return ",".join("+".join(_attribute(*each) for each in part) for part in reversed(subject))


def _attribute(name: str, value: str) -> str:
    keyword = _KEYWORDS.get(name)
    if keyword is not None:
        return f"{keyword}={_escaped(value)}"
    return f"{_OTHER_IDS.get(name, name)}=#{_encoded(name, value).hex()}"


def _escaped(value: str) -> str:
    text = "".join(f"\\{each}" if each in _ESCAPED else "\\00" if each == "\0" else each for each in value)
    stripped = text.strip(" ")
    before = len(text) - len(text.lstrip(" "))
    after = len(text) - before - len(stripped)
    if stripped.startswith("#") and not before:
        stripped = f"\\{stripped}"
    return "\\ " * before + stripped + "\\ " * after


def _encoded(name: str, value: str) -> bytes:
    """Returns a value in DER, in the type that authorities use for it."""
    kind = _UTF8
    if name in ("emailAddress", "domainComponent"):
        kind = _IA5
    elif set(value) <= _PRINTABLE_CHARACTERS:
        kind = _PRINTABLE
    data = value.encode()
    if len(data) < 0x80:
        return bytes((kind, len(data))) + data
    size = len(data).to_bytes((len(data).bit_length() + 7) // 8)
    return bytes((kind, 0x80 | len(size))) + size + data
