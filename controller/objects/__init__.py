"""The objects of the SC, with spec and status, and their form as documents for people. Pure; imports no other room."""
