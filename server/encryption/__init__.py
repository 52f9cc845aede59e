"""TLS on the listeners of a server: certificates from files, handshakes within bounds, and who a certificate names."""
