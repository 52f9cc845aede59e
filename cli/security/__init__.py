"""`tailrace user …`, `tailrace acl …`, `tailrace quota …`, `tailrace audit …`: who may do what, and who did.

May import clients, options and output.
"""
