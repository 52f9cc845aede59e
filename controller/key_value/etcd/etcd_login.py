"""The login of the SC in etcd: a user and a password, and the token that etcd has given for them. Pure."""

from tailrace.security.settings.secret import Secret

from .etcd_messages import Json

_INVALID_ARGUMENT, _PERMISSION_DENIED, _FAILED_PRECONDITION, _UNAUTHENTICATED = 3, 7, 9, 16
_OUTDATED = ("revision of auth store is old", "revision in header is old", "invalid auth token", "user name is empty")
"""What etcd says about a token that it does not accept any more, or if authentication was enabled without a token."""


class EtcdLogin:
    """What calls have to prove. Without a user, they carry no token."""

    def __init__(self, user: str = "", password: Secret = Secret("")) -> None:  # noqa: B008 # it never changes
        self._user = user
        self._password = password
        self._token = ""

    @property
    def token(self) -> str:
        """The current token, or an empty text."""
        return self._token

    @property
    def is_needed(self) -> bool:
        """Whether a token has to be asked for before the next call."""
        return bool(self._user) and not self._token

    def request(self) -> Json:
        """Returns the request for a token. It contains the password."""
        return {"name": self._user, "password": self._password.reveal()}

    def take(self, token: str) -> None:
        """Uses the token from now on."""
        self._token = token

    def forget(self, token: str) -> None:
        """Asks for another token before the next call, unless that has happened already."""
        if token == self._token:
            self._token = ""

    def can_renew(self, code: int, message: str) -> bool:
        """Tells whether a call failed because of its token, so that another token may help.

        etcd compares the token before it carries anything out. It forgets tokens that were not used for some minutes,
        and those of a user whose password or roles somebody has changed.
        """
        return bool(self._user) and _is_about_token(code, message)

    def refusal(self, code: int, message: str) -> str | None:
        """Returns why etcd does not let this user do anything; None if the error has another reason."""
        if code == _FAILED_PRECONDITION and "authentication is not enabled" in message:
            return "has no authentication, so that username and password have no effect: leave them out, or enable it"
        if code == _INVALID_ARGUMENT and "authentication failed" in message:
            return f"refuses the user {self._user!r}: the name or the password in the file of --store-config is wrong"
        is_denied = code == _PERMISSION_DENIED or "permission denied" in message
        if not self._user and (is_denied or _is_about_token(code, message)):
            return "demands a login: give username and password in a file with --store-config"
        if is_denied:
            return (
                f"does not let the user {self._user!r} read and write the keys of the cluster: grant a role with "
                "`etcdctl role grant-permission --prefix=true ROLE readwrite /tailrace/`"
            )
        return None


def headers_of(token: str) -> tuple[tuple[str, str], ...]:
    """Returns the headers of a call with the token."""
    return (("authorization", token),) if token else ()


def _is_about_token(code: int, message: str) -> bool:
    return code == _UNAUTHENTICATED or any(each in message for each in _OUTDATED)
