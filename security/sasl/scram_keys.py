"""The keys of SCRAM (RFC 5802, RFC 7677): computed from passwords, and compared in constant time."""

import hashlib
import hmac

from tailrace.security.records.user_record import SCRAM_SHA_256, SCRAM_SHA_512, ScramCredential

ITERATIONS_MIN = 4096
"""The fewest iterations that a credential may have, as in Apache Kafka."""
ITERATIONS_MAX = 16384
"""The most iterations that a credential may have, as in Apache Kafka: every login of a client computes them."""
ITERATIONS = 4096
"""The iterations of credentials that we create, as Apache Kafka's tools do."""
SALT_BYTES = 26
"""The size of the salts that we create, as Apache Kafka's tools do."""
_HASHES = {SCRAM_SHA_256: "sha256", SCRAM_SHA_512: "sha512"}
SCRAM_MECHANISMS = tuple(_HASHES)
SCRAM_CODES = {1: SCRAM_SHA_256, 2: SCRAM_SHA_512}
"""The mechanisms by the codes that they have in requests."""
_SALT_CHARACTERS = b"0123456789abcdefghijklmnopqrstuvwxyz"
_CLIENT_KEY = b"Client Key"
_SERVER_KEY = b"Server Key"


def salt_of(chance: bytes) -> bytes:
    """Returns a salt of random bytes. It has the characters that salts of Apache Kafka's tools have."""
    return bytes(_SALT_CHARACTERS[byte % len(_SALT_CHARACTERS)] for byte in chance)


def keyed_hash(mechanism: str, key: bytes, data: bytes) -> bytes:
    """Returns the HMAC of `data` with the hash function of the mechanism."""
    return hmac.digest(key, data, _HASHES[mechanism])


def salt_password(mechanism: str, password: str, salt: bytes, iterations: int) -> bytes:
    """Returns the salted password. It takes milliseconds, which is what protects passwords from being guessed."""
    return hashlib.pbkdf2_hmac(_HASHES[mechanism], password.encode(), salt, iterations)


def credential_of_salted(mechanism: str, salted_password: bytes, salt: bytes, iterations: int) -> ScramCredential:
    """Returns what a server keeps of a salted password."""
    client_key = keyed_hash(mechanism, salted_password, _CLIENT_KEY)
    return ScramCredential(
        mechanism=mechanism,
        salt=salt,
        stored_key=hashlib.new(_HASHES[mechanism], client_key).digest(),
        server_key=keyed_hash(mechanism, salted_password, _SERVER_KEY),
        iterations=iterations,
    )


def credential_of_password(mechanism: str, password: str, salt: bytes, iterations: int = ITERATIONS) -> ScramCredential:
    """Returns what a server keeps of a password."""
    return credential_of_salted(mechanism, salt_password(mechanism, password, salt, iterations), salt, iterations)


def client_proof(mechanism: str, salted_password: bytes, auth_message: bytes) -> bytes:
    """Returns what a client sends to prove that it knows the password."""
    client_key = keyed_hash(mechanism, salted_password, _CLIENT_KEY)
    stored_key = hashlib.new(_HASHES[mechanism], client_key).digest()
    return _exclusive_or(client_key, keyed_hash(mechanism, stored_key, auth_message))


def server_signature(mechanism: str, salted_password: bytes, auth_message: bytes) -> bytes:
    """Returns what a server sends to prove that it knows the user's credential."""
    return keyed_hash(mechanism, keyed_hash(mechanism, salted_password, _SERVER_KEY), auth_message)


def proves(credential: ScramCredential, proof: bytes, auth_message: bytes) -> bool:
    """Whether a client's proof shows that it knows the password."""
    signature = keyed_hash(credential.mechanism, credential.stored_key, auth_message)
    if len(proof) != len(signature):
        return False
    client_key = _exclusive_or(proof, signature)
    stored_key = hashlib.new(_HASHES[credential.mechanism], client_key).digest()
    return hmac.compare_digest(stored_key, credential.stored_key)


def fits(credential: ScramCredential, password: str) -> bool:
    """Whether a password is the one of the credential. It takes as long as `salt_password`."""
    salted = salt_password(credential.mechanism, password, credential.salt, credential.iterations)
    computed = credential_of_salted(credential.mechanism, salted, credential.salt, credential.iterations)
    return hmac.compare_digest(computed.stored_key, credential.stored_key)


def _exclusive_or(left: bytes, right: bytes) -> bytes:
    return (int.from_bytes(left, "big") ^ int.from_bytes(right, "big")).to_bytes(len(left), "big")
