"""What the cluster stores for security: users, access rules, quotas and delegation tokens, and tables of them.

The Streaming Controller stores the records, and every SPU has a copy of them.
"""
