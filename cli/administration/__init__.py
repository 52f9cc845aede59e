"""The commands that administer any cluster with Kafka's protocol alone, of Tailrace or Apache Kafka: topics through a
broker, configs, and deletions of records. May import `options`, `clients` and `output`.
"""
