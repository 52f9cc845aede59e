"""The cases are those that Apache Kafka's SslPrincipalMapperTest checks."""

import pytest

from tailrace.runtime.settings import SettingsError
from tailrace.security.identity.principal import Principal
from tailrace.security.identity.principal_mapping import PrincipalMapping, UnmappedNameError

RULES = (
    "RULE:^CN=(.*?),OU=ServiceUsers.*$/$1/L, "
    "RULE:^CN=(.*?),OU=(.*?),O=(.*?),L=(.*?),ST=(.*?),C=(.*?)$/$1@$2/L, "
    "RULE:^cn=(.*?),ou=(.*?),dc=(.*?),dc=(.*?)$/$1@$2/U, "
    "RULE:^.*[Cc][Nn]=([a-zA-Z0-9.]*).*$/$1/U, "
    "DEFAULT"
)


@pytest.mark.parametrize(
    ("name", "user"),
    [
        ("CN=Duke,OU=ServiceUsers,O=Org,C=US", "duke"),
        ("CN=Duke,OU=SME,O=mycp,L=Fulton,ST=MD,C=US", "duke@sme"),
        ("cn=duke,ou=sme,dc=mycp,dc=com", "DUKE@SME"),
        ("CN=duke", "DUKE"),
        ("OU=JavaSoft,O=Sun Microsystems", "OU=JavaSoft,O=Sun Microsystems"),
    ],
)
def test_the_first_rule_that_matches_the_whole_name_decides(name: str, user: str) -> None:
    assert PrincipalMapping(RULES).principal_of(name) == Principal("User", user)


def test_the_default_takes_the_whole_name() -> None:
    assert str(PrincipalMapping("DEFAULT").principal_of("CN=alice,C=DE")) == "User:CN=alice,C=DE"


def test_a_name_without_a_rule_is_refused() -> None:
    with pytest.raises(UnmappedNameError, match="'O=x'"):
        PrincipalMapping("RULE:^CN=(.*)$/$1/").principal_of("O=x")


def test_slashes_and_dollars_can_be_escaped() -> None:
    assert PrincipalMapping(r"RULE:^CN=a\/(.*)$/b\/\$$1/").principal_of("CN=a/x").name == "b/$x"
    assert PrincipalMapping(r"RULE:^CN=(?P<who>.*)$/${who}/").principal_of("CN=x").name == "x"


@pytest.mark.parametrize(
    "rules",
    [
        "default",
        "DEFAUL",
        "DEFAULT/L",
        "DEFAULT/U",
        "RULE:CN=(.*?),OU=ServiceUsers.*/$1",
        "RULE:^CN=(.*?),OU=ServiceUsers.*$/$1L",
        "RULE:^CN=(.*?),OU=ServiceUsers.*$/$1/X",
        "RULE:^CN=(.*?),OU=ServiceUsers.*$/$1/LU",
        "RULE:^CN=(.*?$/$1/",
        "RULE:^CN=(.*)$/$2/",
        "RULE:^CN=(.*)$/${who}/",
        "RULE:^CN=(.*)$/$/",
    ],
)
def test_what_is_refused(rules: str) -> None:
    with pytest.raises(SettingsError, match=r"ssl\.principal\.mapping\.rules"):
        PrincipalMapping(rules)
