"""Quotas at work: measures clients that have quotas, tells them to wait, and leaves their connections unread meanwhile.

`security/quotas/` decides; this room knows requests, responses and Trio's clock. Each server enforces quotas for
itself, as Apache Kafka's brokers do. Clients without quotas are not measured.
"""
