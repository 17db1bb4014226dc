"""The HTTP side: what tenants and machines may ask. Views translate; the domain decides."""
