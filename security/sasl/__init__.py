"""Authentication with SASL: the exchanges of PLAIN, SCRAM and OAUTHBEARER, and what they compare. Pure.

An exchange takes the bytes that a client sent and returns the next step of the server. It knows no connection.
"""
