"""Reads partitions from brokers, Tailrace or Apache Kafka, with our own client, on the driver and on executors.

Executors that use this room need Trio and structlog beside what every job needs.
"""
