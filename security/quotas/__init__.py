"""How much clients may use: quotas of users, client ids and addresses, measured as Apache Kafka measures them.

Times are arguments, in milliseconds. Nothing here knows connections, requests or a clock.
"""
