"""Whatever is encrypted, MACed, chained or signed; with ``keyring`` the only user of `cryptography`."""
