"""Committed offsets: their storage, fetching and expiry.

Pure; may import common.
"""
