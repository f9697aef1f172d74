-- Retention and erasure: what binds each session and derived item, where derived items come from, what is being
-- erased, and the proof of what was.

ALTER TABLE sessions ADD COLUMN retention BLOB NOT NULL DEFAULT x'';  -- how long it is kept, and what was asked; empty: until erased
ALTER TABLE sessions ADD COLUMN due_hour INTEGER NOT NULL DEFAULT 0;  -- first hour in which it may be due, 0 for never: only ever early

CREATE INDEX sessions_by_due ON sessions (due_hour) WHERE due_hour > 0;

-- One version of a memory, summary, embedding, artifact or cache. Superseded ones stay until they expire or a
-- source goes: what came from them is found through them.
CREATE TABLE items (
    no         INTEGER NOT NULL PRIMARY KEY,
    item_id    BLOB    NOT NULL UNIQUE,
    tenant_id  BLOB    NOT NULL,
    owner      BLOB    NOT NULL,
    kind       TEXT    NOT NULL,
    name       BLOB    NOT NULL,                -- blind index of kind, namespace and key
    space      BLOB    NOT NULL,                -- blind index of kind and namespace
    version    INTEGER NOT NULL,                -- of this name, from 1
    state      TEXT    NOT NULL,                -- live, superseded, stale or erasing
    hung       TEXT    NOT NULL,                -- any, last or free: which sources' keys open it
    sources    BLOB    NOT NULL,                -- kinds, ids and epochs of what it came from
    created_us INTEGER NOT NULL,
    changed_us INTEGER NOT NULL,                -- when its state last changed
    retention  BLOB    NOT NULL,
    due_hour   INTEGER NOT NULL,
    content    INTEGER NOT NULL,                -- 0 JSON, 1 raw, 2 streamed
    about      BLOB    NOT NULL,                -- sealed: namespace, key, media type, labels
    body       BLOB,                            -- sealed; NULL when it stands in the blob area
    address    BLOB    NOT NULL,                -- SHA-256 of the sealed body
    size       INTEGER NOT NULL,
    mac        BLOB    NOT NULL
) STRICT;

CREATE UNIQUE INDEX items_by_name ON items (tenant_id, owner, name, version);
CREATE INDEX items_by_space ON items (tenant_id, owner, space, no);
CREATE INDEX items_by_due ON items (due_hour) WHERE due_hour > 0;
CREATE INDEX items_in_area ON items (address) WHERE body IS NULL;

-- What came from what; each item's `sources` says it too, under its MAC.
CREATE TABLE lineage (
    source  BLOB    NOT NULL,                   -- session_id or item_id
    item_no INTEGER NOT NULL REFERENCES items (no),
    PRIMARY KEY (source, item_no)
) STRICT, WITHOUT ROWID;

CREATE INDEX lineage_by_item ON lineage (item_no);

-- One erasure: opened before anything is destroyed, so that a crash anywhere is resumed.
CREATE TABLE operations (
    no           INTEGER NOT NULL PRIMARY KEY,
    operation_id BLOB    NOT NULL UNIQUE,
    tenant_id    BLOB    NOT NULL,
    state        TEXT    NOT NULL,              -- open, condemned, destroyed, deleted, done or incomplete
    opened_us    INTEGER NOT NULL,
    plan         BLOB    NOT NULL,              -- sealed: what is erased and why; ids only once it is done
    mac          BLOB    NOT NULL
) STRICT;

CREATE INDEX operations_unfinished ON operations (no) WHERE state <> 'done';

-- Signed receipts, as they were handed out; without personal data.
CREATE TABLE receipts (
    operation_id BLOB    NOT NULL,
    number       INTEGER NOT NULL,              -- per tenant, from 1
    tenant_id    BLOB    NOT NULL,
    content      BLOB    NOT NULL,
    PRIMARY KEY (tenant_id, number)
) STRICT, WITHOUT ROWID;

CREATE INDEX receipts_by_operation ON receipts (operation_id, number);

-- Deleting a blob asks which event names it.
CREATE INDEX events_by_blob ON events (blob_no) WHERE blob_no IS NOT NULL;

-- The sweeper: which process works, since when the clock is trusted, and when it last looked. One row.
CREATE TABLE sweeper (
    name       TEXT    NOT NULL PRIMARY KEY,
    fence      INTEGER NOT NULL,                -- grows with every lease; each batch compares it
    until_us   INTEGER NOT NULL,                -- the end of the lease
    high_us    INTEGER NOT NULL,                -- the latest time seen: a clock that jumps is not believed
    ticked_us  INTEGER NOT NULL,                -- when a sweep last came to its end
    mac        BLOB    NOT NULL
) STRICT;
