-- Wrapped keys, apart from the data they open: back this file up separately and keep its backups briefly.

CREATE TABLE root (
    vault_id BLOB NOT NULL PRIMARY KEY,         -- whose keys these are
    provider TEXT NOT NULL,                     -- which kind of root key opens them
    record   BLOB NOT NULL                      -- what the provider needs to find it again; no secret
) STRICT;

CREATE TABLE keys (
    purpose TEXT    NOT NULL,
    scope   BLOB    NOT NULL,                   -- vault id, tenant id or session id
    epoch   INTEGER NOT NULL,
    owner   BLOB    NOT NULL,                   -- blind index of the owner; empty above the epochs
    wrapped BLOB    NOT NULL,
    PRIMARY KEY (purpose, scope, epoch)
) STRICT;
