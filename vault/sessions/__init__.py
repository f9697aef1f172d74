"""Sessions: create, append, read, follow, find."""
