from tailrace.security.identity.server_names import names_in, spu_name, spu_principal


def test_a_certificate_names_servers_by_dns_names() -> None:
    names = (("DNS", "spu-7.tailrace"), ("DNS", "localhost"), ("IP Address", "127.0.0.1"))
    assert names_in({"subjectAltName": names}) == {spu_name(7), "localhost"}
    assert names_in({}) == frozenset()


def test_the_principal_of_an_spu_is_no_user() -> None:
    assert str(spu_principal(7)) == "Server:spu-7"
