"""Decisions about SPUs and SPU groups, and the provisioner that runs managed SPUs. Pure except for
`local_provisioner`. May import state.
"""
