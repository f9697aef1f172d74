"""Measurements of the vault beside plain SQLite and two agent frameworks' own stores."""
