-- The log: sessions, their events, the sealed payloads. Times are integer microseconds since 1970 UTC.
-- What is in clear here is listed, with its reason, in docs/reference/sql-schema.md; a test refuses a column
-- that is not.

CREATE TABLE vault (
    vault_id    BLOB    NOT NULL PRIMARY KEY,
    created_us  INTEGER NOT NULL,
    ledger_no   INTEGER NOT NULL,               -- newest ledger entry written, 0 for none
    ledger_hash BLOB    NOT NULL,               -- SHA-256 of that entry
    mac         BLOB    NOT NULL
) STRICT;

CREATE TABLE sessions (
    no         INTEGER NOT NULL PRIMARY KEY,
    session_id BLOB    NOT NULL UNIQUE,
    tenant_id  BLOB    NOT NULL,                -- blind index of the tenant's name
    owner      BLOB    NOT NULL,                -- blind index of the owner
    external   BLOB,                            -- blind index of the caller's own id
    state      TEXT    NOT NULL,
    version    INTEGER NOT NULL,                -- grows with every change of this row
    epoch      INTEGER NOT NULL,
    head_seq   INTEGER NOT NULL,
    head_chain BLOB    NOT NULL,
    tails      BLOB    NOT NULL,                -- events per type, and of the newest run
    created_us INTEGER NOT NULL,
    updated_us INTEGER NOT NULL,
    used_hour  INTEGER NOT NULL,                -- updated_us in whole hours: indexed, so it must change rarely
    ended_us   INTEGER NOT NULL,                -- 0 while it lives
    about      BLOB    NOT NULL,                -- sealed: title, labels, config, external id, parent
    mac        BLOB    NOT NULL
) STRICT;

CREATE INDEX sessions_by_owner ON sessions (tenant_id, owner, used_hour);
CREATE UNIQUE INDEX sessions_by_external ON sessions (tenant_id, owner, external) WHERE external IS NOT NULL;

CREATE TABLE labels (
    label      BLOB    NOT NULL,                -- blind index of key and value
    session_no INTEGER NOT NULL REFERENCES sessions (no) ON DELETE CASCADE,
    PRIMARY KEY (label, session_no)
) STRICT, WITHOUT ROWID;

CREATE INDEX labels_by_session ON labels (session_no);

-- Payloads of 2 KiB and more; shorter ones stand beside their event. A rowid table with an index: measured
-- three times faster than one clustered by a random key.
CREATE TABLE blobs (
    no         INTEGER NOT NULL PRIMARY KEY,
    session_no INTEGER NOT NULL REFERENCES sessions (no),
    epoch      INTEGER NOT NULL,
    content_id BLOB    NOT NULL,                -- keyed hash: repeats within a session are stored once
    address    BLOB    NOT NULL,                -- SHA-256 of the sealed bytes
    size       INTEGER NOT NULL,
    body       BLOB,                            -- sealed; NULL when it stands in the blob area
    mac        BLOB    NOT NULL                 -- a repeat is found by content_id: it must be the right one
) STRICT;

CREATE UNIQUE INDEX blobs_by_content ON blobs (session_no, epoch, content_id);
CREATE INDEX blobs_in_area ON blobs (address) WHERE body IS NULL;

CREATE TABLE events (
    session_no  INTEGER NOT NULL REFERENCES sessions (no),
    seq         INTEGER NOT NULL,               -- place in the log, from 1
    event_id    BLOB    NOT NULL,               -- a UUIDv7; one made by the vault ends in seq
    given_id    INTEGER NOT NULL,               -- 1 when the writer chose the id
    type        TEXT    NOT NULL,
    level       INTEGER NOT NULL,
    recorded_us INTEGER NOT NULL,
    run_id      BLOB,
    epoch       INTEGER NOT NULL,
    content     INTEGER NOT NULL,               -- 0 JSON, 1 raw
    type_nth    INTEGER NOT NULL,               -- place among the session's events of this type, from 1
    run_nth     INTEGER NOT NULL,               -- place among the events of this run, from 1; 0 outside one
    salt        BLOB    NOT NULL,
    meta        BLOB,                           -- sealed: tool, cause, observed and occurred times, usage
    body        BLOB,                           -- sealed payload; NULL when it stands in blobs
    blob_no     INTEGER REFERENCES blobs (no),
    address     BLOB    NOT NULL,
    size        INTEGER NOT NULL,
    chain       BLOB    NOT NULL,
    mac         BLOB    NOT NULL,
    PRIMARY KEY (session_no, seq)
) STRICT;

CREATE UNIQUE INDEX events_by_given_id ON events (session_no, event_id) WHERE given_id = 1;
CREATE INDEX events_by_type ON events (session_no, type, seq);
CREATE INDEX events_by_run ON events (session_no, run_id, seq) WHERE run_id IS NOT NULL;

CREATE TABLE runs (
    session_no INTEGER NOT NULL REFERENCES sessions (no),
    run_id     BLOB    NOT NULL,
    written    INTEGER NOT NULL,               -- how many events the run wrote
    mac        BLOB    NOT NULL,
    PRIMARY KEY (session_no, run_id)
) STRICT, WITHOUT ROWID;

-- An event is never changed, and goes only with a session that is being erased.
CREATE TRIGGER events_are_never_updated BEFORE UPDATE ON events
BEGIN
    SELECT RAISE(ABORT, 'events are never updated');
END;

CREATE TRIGGER events_go_only_by_erasure BEFORE DELETE ON events
WHEN NOT EXISTS (SELECT 1 FROM sessions WHERE no = OLD.session_no AND state = 'erasing')
BEGIN
    SELECT RAISE(ABORT, 'events are deleted only by erasure');
END;
