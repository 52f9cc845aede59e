"""What the requests about access rules have in common: they need an authorizer."""

from tailrace.protocol.error_codes import ErrorCode, KafkaError
from tailrace.security.settings.authorizer_settings import AUTHORIZER

from .host import Host

NO_AUTHORIZER = f"there is no authorizer, and everybody may do everything: set {AUTHORIZER} for all servers"


def check_authorizer(host: Host) -> None:
    """Raises KafkaError if the server has no authorizer."""
    if not host.broker_configs.value(AUTHORIZER):
        raise KafkaError(ErrorCode.SECURITY_DISABLED, NO_AUTHORIZER)
