-- Keys that are being destroyed, what was destroyed, and holds: decided in one file, so in one transaction.

ALTER TABLE keys ADD COLUMN tenant_id BLOB NOT NULL DEFAULT x'';  -- empty above, and at first in older epochs' rows
ALTER TABLE keys ADD COLUMN dying BLOB;                           -- the operation that destroys it, or NULL

UPDATE keys SET tenant_id = scope WHERE purpose IN ('tenant', 'index');

CREATE INDEX keys_dying ON keys (dying) WHERE dying IS NOT NULL;
CREATE INDEX keys_of_tenant ON keys (tenant_id);

-- The places whose keys are gone for good. Epoch -1 stands for all of a scope, also the epochs it never had.
CREATE TABLE destroyed (
    purpose      TEXT    NOT NULL,
    scope        BLOB    NOT NULL,
    epoch        INTEGER NOT NULL,
    owner        BLOB    NOT NULL,
    tenant_id    BLOB    NOT NULL,
    fingerprint  BLOB    NOT NULL,              -- of the wrapped key, 16 bytes; empty when there was none
    operation    BLOB    NOT NULL,
    destroyed_us INTEGER NOT NULL,
    PRIMARY KEY (purpose, scope, epoch)
) STRICT, WITHOUT ROWID;

CREATE INDEX destroyed_by_operation ON destroyed (operation);
CREATE INDEX destroyed_of_tenant ON destroyed (tenant_id, scope);

CREATE TABLE holds (
    hold_id   BLOB    NOT NULL,
    tenant_id BLOB    NOT NULL,
    tag       BLOB    NOT NULL,                 -- 16 bytes: what is held; a key to destroy carries tags too
    placed_us INTEGER NOT NULL,
    lifted_us INTEGER NOT NULL DEFAULT 0,       -- 0 while it holds
    PRIMARY KEY (hold_id, tag)
) STRICT, WITHOUT ROWID;

CREATE INDEX holds_of_tenant ON holds (tenant_id, placed_us, hold_id, tag);
CREATE INDEX holds_active ON holds (tenant_id, tag) WHERE lifted_us = 0;

CREATE TRIGGER keys_stay_destroyed BEFORE INSERT ON keys
WHEN EXISTS (SELECT 1 FROM destroyed AS d
             WHERE d.purpose = NEW.purpose AND d.scope = NEW.scope AND d.epoch IN (NEW.epoch, -1))
BEGIN
    SELECT RAISE(ABORT, 'this key was destroyed');
END;

CREATE TRIGGER destroyed_never_changes BEFORE UPDATE ON destroyed
BEGIN
    SELECT RAISE(ABORT, 'what was destroyed stays so');
END;

CREATE TRIGGER destroyed_never_goes BEFORE DELETE ON destroyed
BEGIN
    SELECT RAISE(ABORT, 'what was destroyed stays so');
END;
