"""The SPU: serves Kafka clients from the replicas it holds."""
