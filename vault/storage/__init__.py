"""The database, the blob area and the ledger's files; nothing here decides anything."""
