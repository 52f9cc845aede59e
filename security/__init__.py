"""Who a client is, what it may do, and how much of it: decided without Trio, clock or network.

`identity/` names the principals. The other rooms hold credentials, access rules and quotas, and decide with them. The
package knows nothing of topics or connections, so that the mirror of the cluster and all servers can use it.
"""
