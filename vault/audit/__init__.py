"""The ledger outside the database, and verification."""
