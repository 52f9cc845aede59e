"""Access rules as CreateAcls has them."""

from tailrace.protocol.messages.create_acls import AclCreation
from tailrace.security.records.acl_record import AclRecord


def creation(record: AclRecord) -> AclCreation:
    return AclCreation(
        record.resource_type,
        record.resource_name,
        record.pattern_type,
        record.principal,
        record.host,
        record.operation,
        record.permission,
    )
