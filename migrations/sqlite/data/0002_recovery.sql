-- Recovery: one run at a time, forks, and finding an event by what it is about.

ALTER TABLE sessions ADD COLUMN lease BLOB NOT NULL DEFAULT x'';      -- who runs, until when, who waits; empty before the first run
ALTER TABLE sessions ADD COLUMN forked_from BLOB;                     -- session_id whose log comes before this one's
ALTER TABLE sessions ADD COLUMN base_seq INTEGER NOT NULL DEFAULT 0;  -- events that are shared with it
ALTER TABLE sessions ADD COLUMN base_chain BLOB NOT NULL DEFAULT x''; -- its chain value there

CREATE INDEX sessions_by_fork ON sessions (forked_from) WHERE forked_from IS NOT NULL;

ALTER TABLE events ADD COLUMN ref BLOB;                               -- blind index of an effect's kind and key, or of a resource

CREATE INDEX events_by_ref ON events (session_no, ref, seq) WHERE ref IS NOT NULL;

-- Which sessions committed an effect on a resource or about a subject, so that another one learns of it.
CREATE TABLE touches (
    tag         BLOB    NOT NULL,               -- blind index of the resource or subject
    recorded_us INTEGER NOT NULL,
    session_no  INTEGER NOT NULL REFERENCES sessions (no),
    seq         INTEGER NOT NULL,
    PRIMARY KEY (tag, recorded_us, session_no, seq)
) STRICT, WITHOUT ROWID;

CREATE INDEX touches_by_session ON touches (session_no);
