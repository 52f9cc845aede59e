"""Makes certificates for clusters whose owners have no authority of their own, and reads them."""
