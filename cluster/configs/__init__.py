"""Configs of brokers, topics and groups: definitions, values in force, changes. Pure."""
