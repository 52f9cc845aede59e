"""Transactions. Coordinators decide; markers end transactions in the partitions that took part in them."""
