"""The coordinator of one partition of `__transaction_state`.

It finds the transactional id and handles the request. Pure; imports only the common room of transactions.
"""
