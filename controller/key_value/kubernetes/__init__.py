"""The key-value store in custom resources of Kubernetes: a log of transactions whose newest one is compare-and-set. May
import the modules of key_value.
"""
