"""One record of each kind that the cluster stores for security."""

from tailrace.security.records.acl_record import AclRecord
from tailrace.security.records.quota_record import QuotaRecord
from tailrace.security.records.security_records import SecurityRecord
from tailrace.security.records.token_record import TokenRecord
from tailrace.security.records.user_record import SCRAM_SHA_256, SCRAM_SHA_512, ScramCredential, UserRecord

CREDENTIAL = ScramCredential(SCRAM_SHA_256, b"salt", b"stored \xff key", b"server \x00 key", 4096)
ALICE = UserRecord("alice", (CREDENTIAL,))
READ_ORDERS = AclRecord(2, 3, "orders", "User:alice", "*", 3, 3)
FAST = QuotaRecord((("user", "alice"), ("client-id", None)), {"producer_byte_rate": 1024.5})
TOKEN = TokenRecord("t1", "User:alice", "User:bob", (CREDENTIAL,), ("User:carol",), 1, 2, 3)
RECORDS: tuple[SecurityRecord, ...] = (ALICE, READ_ORDERS, FAST, TOKEN)
OTHER_CREDENTIAL = ScramCredential(SCRAM_SHA_512, b"salt", b"stored", b"server", 8192)
