"""The commands that administer any cluster with Kafka's protocol alone, of Tailrace or Apache Kafka: topics through a
broker, configs, deletions of records, moves of replicas, and elections. May import `options`, `clients` and `output`.
"""
