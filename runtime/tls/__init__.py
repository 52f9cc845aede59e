"""TLS over the network seam: encrypted connections, and the contexts with certificates that they need."""
