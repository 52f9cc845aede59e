"""`tailrace user …`, `tailrace acl …`, `tailrace quota …`: who may do what, and how much.

May import clients, options and output.
"""
