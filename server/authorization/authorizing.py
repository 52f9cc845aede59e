"""Finds out whether a server has an authorizer, and imports what that needs only then."""

from collections.abc import Mapping
from typing import TYPE_CHECKING

from tailrace.cluster.cluster import Cluster
from tailrace.cluster.configs.broker_configs import BrokerConfigs
from tailrace.security.settings.authorizer_settings import parse_authorizer_settings
from tailrace.security.settings.setting_texts import SettingTexts

if TYPE_CHECKING:
    from tailrace.server.auditing.audit_trail import AuditTrail

    from .authorization import Authorization


def authorization_of(
    static: Mapping[str, str], cluster: Cluster, configs: BrokerConfigs, audit: "AuditTrail | None" = None
) -> "Authorization | None":
    """Makes the authorization that the static configs of a server ask for; None if they ask for none."""
    settings = parse_authorizer_settings(SettingTexts(static))
    if settings is None:
        return None
    from tailrace.security.acls.authorizer import Authorizer

    from .authorization import Authorization

    authorizer = Authorizer(
        cluster.security, settings.super_users, allows_everyone_without_rule=settings.allows_everyone_without_rule
    )
    return Authorization(authorizer, cluster, lambda: configs.settings.auto_create_topics, audit)
