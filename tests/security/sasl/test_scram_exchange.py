import base64
import tracemalloc

import pytest
from sasl_samples import ALICE, PASSWORD, SALT, find_alice

from tailrace.security.records.user_record import ScramCredential
from tailrace.security.sasl.client_exchange import ScramClient
from tailrace.security.sasl.sasl_steps import Authenticated, Challenge, Refused, user
from tailrace.security.sasl.scram_exchange import ScramExchange, ScramLogin, decode_name, encode_name
from tailrace.security.sasl.scram_keys import SCRAM_MECHANISMS, client_proof, credential_of_password, salt_password

SHA = "SCRAM-SHA-256"


def exchange(mechanism: str = SHA) -> ScramExchange:
    return ScramExchange(mechanism, lambda name, is_token: find_alice(mechanism, name, is_token), "server")


def proof_for(first: str, challenge: str, unproven: str, password: str = PASSWORD) -> str:
    bare = first.split(",", 2)[2]
    salted = salt_password(SHA, password, SALT, 4096)
    return base64.b64encode(client_proof(SHA, salted, f"{bare},{challenge},{unproven}".encode())).decode()


def answer(first: str, *, nonce: str | None = None, binding: str | None = None, extra: str = "") -> object:
    """Sends a first message and a final one with a right proof for whatever the final one says."""
    server = exchange()
    challenge = server.step(first.encode())
    assert isinstance(challenge, Challenge), challenge
    text = challenge.data.decode()
    header = ",".join(first.split(",", 2)[:2]) + ","
    binding = base64.b64encode(header.encode()).decode() if binding is None else binding
    unproven = f"c={binding},r={text.split(',')[0][2:] if nonce is None else nonce}{extra}"
    return server.step(f"{unproven},p={proof_for(first, text, unproven)}".encode())


@pytest.mark.parametrize("mechanism", SCRAM_MECHANISMS)
def test_a_client_with_the_password_is_let_in(mechanism: str) -> None:
    client, server = ScramClient(mechanism, "alice", PASSWORD, "client"), exchange(mechanism)
    challenge = server.step(client.first())
    assert isinstance(challenge, Challenge)
    final = client.step(challenge.data)
    assert final is not None
    done = server.step(final)
    assert isinstance(done, Authenticated) and done.principal == ALICE and not done.is_token
    assert client.step(done.data) is None


@pytest.mark.parametrize("name", ["alice", "mallory"])
def test_an_unknown_user_looks_like_a_wrong_password(name: str) -> None:
    client, server = ScramClient(SHA, name, "wrong", "client"), exchange()
    challenge = server.step(client.first())
    assert isinstance(challenge, Challenge)
    refused = server.step(client.step(challenge.data) or b"")
    assert isinstance(refused, Refused)
    assert refused.message is None, "the client gets the same words in both cases"


def test_cve_2024_56128_the_final_nonce_must_be_the_whole_nonce_that_was_sent() -> None:
    assert isinstance(answer("n,,n=alice,r=client"), Authenticated)
    for nonce in ("server", "xclientserver", "clientserverx", "client", "otherserver"):
        refused = answer("n,,n=alice,r=client", nonce=nonce)
        assert isinstance(refused, Refused) and "nonce" in refused.reason, nonce


def test_channel_binding_flags_must_be_those_of_the_first_message() -> None:
    assert isinstance(answer("y,,n=alice,r=client"), Authenticated)
    for binding in ("eSws", "biwsYQ==", "!", "biw", ""):
        assert isinstance(answer("n,,n=alice,r=client", binding=binding), Refused), binding


def test_a_client_that_requires_channel_binding_is_refused() -> None:
    assert isinstance(exchange().step(b"p=tls-unique,,n=alice,r=client"), Refused)


def test_an_authorization_id_must_be_the_name() -> None:
    assert isinstance(answer("n,a=alice,n=alice,r=client"), Authenticated)
    refused = exchange().step(b"n,a=bob,n=alice,r=client")
    assert isinstance(refused, Refused) and refused.message is not None and "authorization id" in refused.message


def test_unknown_extensions_are_ignored_and_mandatory_ones_are_refused() -> None:
    assert isinstance(answer("n,,n=alice,r=client,ext=1", extra=",more=2"), Authenticated)
    assert isinstance(exchange().step(b"n,,m=ext,n=alice,r=client"), Refused)


@pytest.mark.parametrize(
    "first",
    [b"", b"\xff", b"n,,n=alice", b"n,,r=client", b"n,,n=,r=client", b"n,,n=al=ice,r=client", b"n,,n=alice,r=",
     b"n,a=al=ice,n=alice,r=client", b"n,,n=alice,r=client,", b"n,,n=alice,r=client,1=2", b"n,,n=alice,r=client,a=",
     b"n,,n=alice,r=client,a=1,,b=2", b"x,,n=alice,r=client", b"n,,n=alice,r=cli ent", b"n,,n=al\0ice,r=client",
     b"n=alice,r=client"],
)  # fmt: skip
def test_a_malformed_first_message_is_refused(first: bytes) -> None:
    assert isinstance(exchange().step(first), Refused)


@pytest.mark.parametrize(
    "final",
    [
        b"",
        b"\xff",
        b"c=biws,r=clientserver",
        b"r=clientserver,p=AAAA",
        b"c=biws,r=clientserver,p=A",
        b"c=biws,r=clientserver,,p=AAAA",
        b"\x01",
    ],
)
def test_a_malformed_final_message_is_refused(final: bytes) -> None:
    server = exchange()
    server.step(b"n,,n=alice,r=client")
    assert isinstance(server.step(final), Refused)


def test_names_with_commas_and_equal_signs_are_escaped() -> None:
    for name in ("special user= test,scram", "=2C", "a,=,b"):
        assert decode_name(encode_name(name)) == name
        found: list[str] = []

        def find(name: str, is_token: bool, found: list[str] = found) -> ScramLogin:
            found.append(name)
            return find_alice(SHA, "alice")

        ScramExchange(SHA, find, "server").step(ScramClient(SHA, name, PASSWORD, "client").first())
        assert found == [name]


def test_a_credential_with_few_iterations_is_refused() -> None:
    weak = credential_of_password(SHA, PASSWORD, SALT, 4095)
    assert isinstance(weak, ScramCredential)
    step = ScramExchange(SHA, lambda *_: ScramLogin(weak, ALICE), "server").step(b"n,,n=alice,r=client")
    assert isinstance(step, Refused) and "4096" in step.reason


def test_a_delegation_token_acts_as_its_owner_until_it_expires() -> None:
    hmac = "dG9rZW4taG1hYw=="
    token = ScramLogin(credential_of_password(SHA, hmac, SALT), user("alice"), expires_ms=7)
    asked: list[tuple[str, bool]] = []

    def find(name: str, is_token: bool) -> ScramLogin:
        asked.append((name, is_token))
        return token

    client, server = ScramClient(SHA, "token-id", hmac, "client", is_token=True), ScramExchange(SHA, find, "server")
    challenge = server.step(client.first())
    assert isinstance(challenge, Challenge)
    done = server.step(client.step(challenge.data) or b"")
    assert isinstance(done, Authenticated)
    assert (done.principal, done.expires_ms, done.is_token) == (ALICE, 7, True)
    assert asked == [("token-id", True)]


@pytest.mark.parametrize("part", ["n", "=2C", ",a=b"])
def test_a_long_message_needs_little_memory(part: str) -> None:
    message = b"n,,n=alice%b,r=client" if part != ",a=b" else b"n,,n=alice,r=client%b"
    data = message % (part * 10_000).encode()
    server = exchange()
    tracemalloc.start()
    try:
        server.step(data)
        assert tracemalloc.get_traced_memory()[1] < 32 * len(data) + 10_000
    finally:
        tracemalloc.stop()
