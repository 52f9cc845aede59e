"""The objects of the SC, each with a spec and a status, and their form as documents. Pure; imports no other room."""
