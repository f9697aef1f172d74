-- Every statement of the log, once, for SQLite and PostgreSQL alike: named parameters, integer microseconds,
-- ON CONFLICT and RETURNING. One line says what each is for.

-- name: vault_row
-- The vault's own row.
SELECT vault_id, created_us, ledger_no, ledger_hash, mac FROM vault;

-- name: keep_vault
-- Writes the vault's own row.
INSERT INTO vault (vault_id, created_us, ledger_no, ledger_hash, mac)
VALUES (:vault_id, :created_us, :ledger_no, :ledger_hash, :mac)
ON CONFLICT (vault_id) DO UPDATE
SET ledger_no = excluded.ledger_no, ledger_hash = excluded.ledger_hash, mac = excluded.mac;

-- name: session
-- A session of this tenant and owner; somebody else's is not found, by the same statement.
SELECT no, session_id, tenant_id, owner, external, state, version, epoch, head_seq, head_chain, tails,
       created_us, updated_us, used_hour, ended_us, lease, forked_from, base_seq, base_chain, about, mac
FROM sessions
WHERE session_id = :session_id AND tenant_id = :tenant_id AND owner = :owner;

-- name: owner_of_session
-- Whose session it is, for the door to decide with; a row under it opens only with that owner's key.
SELECT owner FROM sessions WHERE session_id = :session_id AND tenant_id = :tenant_id;

-- name: session_by_external
-- The owner's session under the blind index of an external id.
SELECT no, session_id, tenant_id, owner, external, state, version, epoch, head_seq, head_chain, tails,
       created_us, updated_us, used_hour, ended_us, lease, forked_from, base_seq, base_chain, about, mac
FROM sessions
WHERE tenant_id = :tenant_id AND owner = :owner AND external = :external;

-- name: sessions_of_owner
-- A page of the owner's sessions, last used first.
SELECT no, session_id, tenant_id, owner, external, state, version, epoch, head_seq, head_chain, tails,
       created_us, updated_us, used_hour, ended_us, lease, forked_from, base_seq, base_chain, about, mac
FROM sessions
WHERE tenant_id = :tenant_id AND owner = :owner AND (used_hour, updated_us, no) < (:used_hour, :updated_us, :no)
ORDER BY used_hour DESC, updated_us DESC, no DESC
LIMIT :limit;

-- name: sessions_of_owner_labelled
-- A page of the owner's sessions that carry a label, last used first.
SELECT s.no, s.session_id, s.tenant_id, s.owner, s.external, s.state, s.version, s.epoch, s.head_seq,
       s.head_chain, s.tails, s.created_us, s.updated_us, s.used_hour, s.ended_us, s.lease,
       s.forked_from, s.base_seq, s.base_chain, s.about, s.mac
FROM sessions AS s
WHERE s.tenant_id = :tenant_id AND s.owner = :owner AND (s.used_hour, s.updated_us, s.no) < (:used_hour, :updated_us, :no)
  AND EXISTS (SELECT 1 FROM labels AS l WHERE l.label = :label AND l.session_no = s.no)
ORDER BY s.used_hour DESC, s.updated_us DESC, s.no DESC
LIMIT :limit;

-- name: add_session
-- A new session; its number comes back.
INSERT INTO sessions (session_id, tenant_id, owner, external, state, version, epoch, head_seq, head_chain,
                      tails, created_us, updated_us, used_hour, ended_us, lease, forked_from, base_seq,
                      base_chain, about, mac)
VALUES (:session_id, :tenant_id, :owner, :external, :state, :version, :epoch, :head_seq, :head_chain,
        :tails, :created_us, :updated_us, :used_hour, :ended_us, :lease, :forked_from,
        :base_seq, :base_chain, :about, :mac)
RETURNING no;

-- name: add_label
-- The blind index of one label of a session.
INSERT INTO labels (label, session_no) VALUES (:label, :session_no);

-- name: move_session
-- The compare-and-set of a session's head: the one place that decides the order of its log.
UPDATE sessions
SET state = :state, version = :version, epoch = :epoch, head_seq = :head_seq, head_chain = :head_chain,
    tails = :tails, updated_us = :updated_us, ended_us = :ended_us, lease = :lease, about = :about, mac = :mac
WHERE no = :no AND mac = :expected_mac;

-- name: advance_session
-- The same compare-and-set for an append, which changes only the head.
UPDATE sessions
SET version = :version, head_seq = :head_seq, head_chain = :head_chain, tails = :tails,
    updated_us = :updated_us, mac = :mac
WHERE no = :no AND mac = :expected_mac;

-- name: move_session_in_list
-- The hour a session was last used in, which orders the list; written only when it changes.
UPDATE sessions SET used_hour = :used_hour WHERE no = :no;

-- name: add_event
-- An event; never updated afterwards.
INSERT INTO events (session_no, seq, event_id, given_id, type, level, recorded_us, run_id, epoch, content,
                    type_nth, run_nth, salt, meta, body, blob_no, address, size, ref, chain, mac)
VALUES (:session_no, :seq, :event_id, :given_id, :type, :level, :recorded_us, :run_id, :epoch, :content,
        :type_nth, :run_nth, :salt, :meta, :body, :blob_no, :address, :size, :ref, :chain, :mac);

-- name: add_blob
-- A sealed payload; its number comes back.
INSERT INTO blobs (session_no, epoch, content_id, address, size, body, mac)
VALUES (:session_no, :epoch, :content_id, :address, :size, :body, :mac)
RETURNING no;

-- name: blob_by_content
-- The stored repeat of a payload within its session and epoch.
SELECT no, session_no, epoch, content_id, address, size, NULL, mac
FROM blobs
WHERE session_no = :session_no AND epoch = :epoch AND content_id = :content_id;

-- name: keep_run
-- How many events a run wrote, kept when another run takes over.
INSERT INTO runs (session_no, run_id, written, mac) VALUES (:session_no, :run_id, :written, :mac)
ON CONFLICT (session_no, run_id) DO UPDATE SET written = excluded.written, mac = excluded.mac;

-- name: run
-- The kept count of a run.
SELECT session_no, run_id, written, mac FROM runs WHERE session_no = :session_no AND run_id = :run_id;

-- name: event_at
-- One event by its place.
SELECT e.session_no, e.seq, e.event_id, e.given_id, e.type, e.level, e.recorded_us, e.run_id, e.epoch,
       e.content, e.type_nth, e.run_nth, e.salt, e.meta, e.body, e.blob_no, e.address, e.size, e.ref, e.chain,
       e.mac, b.body
FROM events AS e LEFT JOIN blobs AS b ON b.no = e.blob_no
WHERE e.session_no = :session_no AND e.seq = :seq;

-- name: event_by_given_id
-- One event by an id that its writer chose.
SELECT e.session_no, e.seq, e.event_id, e.given_id, e.type, e.level, e.recorded_us, e.run_id, e.epoch,
       e.content, e.type_nth, e.run_nth, e.salt, e.meta, e.body, e.blob_no, e.address, e.size, e.ref, e.chain,
       e.mac, b.body
FROM events AS e LEFT JOIN blobs AS b ON b.no = e.blob_no
WHERE e.session_no = :session_no AND e.event_id = :event_id AND e.given_id = 1;

-- name: recorded_at
-- When the event at a place was recorded.
SELECT recorded_us FROM events WHERE session_no = :session_no AND seq = :seq;

-- name: events_oldest_first
-- A part of the log, from its start.
SELECT e.session_no, e.seq, e.event_id, e.given_id, e.type, e.level, e.recorded_us, e.run_id, e.epoch,
       e.content, e.type_nth, e.run_nth, e.salt, e.meta, e.body, e.blob_no, e.address, e.size, e.ref, e.chain,
       e.mac, b.body
FROM events AS e LEFT JOIN blobs AS b ON b.no = e.blob_no
WHERE e.session_no = :session_no AND e.seq > :low AND e.seq < :high
ORDER BY e.seq
LIMIT :limit;

-- name: events_newest_first
-- A part of the log, from its end.
SELECT e.session_no, e.seq, e.event_id, e.given_id, e.type, e.level, e.recorded_us, e.run_id, e.epoch,
       e.content, e.type_nth, e.run_nth, e.salt, e.meta, e.body, e.blob_no, e.address, e.size, e.ref, e.chain,
       e.mac, b.body
FROM events AS e LEFT JOIN blobs AS b ON b.no = e.blob_no
WHERE e.session_no = :session_no AND e.seq > :low AND e.seq < :high
ORDER BY e.seq DESC
LIMIT :limit;

-- name: events_of_type_oldest_first
-- A part of the log of one type, from its start.
SELECT e.session_no, e.seq, e.event_id, e.given_id, e.type, e.level, e.recorded_us, e.run_id, e.epoch,
       e.content, e.type_nth, e.run_nth, e.salt, e.meta, e.body, e.blob_no, e.address, e.size, e.ref, e.chain,
       e.mac, b.body
FROM events AS e LEFT JOIN blobs AS b ON b.no = e.blob_no
WHERE e.session_no = :session_no AND e.type = :type AND e.seq > :low AND e.seq < :high
ORDER BY e.seq
LIMIT :limit;

-- name: events_of_type_newest_first
-- A part of the log of one type, from its end.
SELECT e.session_no, e.seq, e.event_id, e.given_id, e.type, e.level, e.recorded_us, e.run_id, e.epoch,
       e.content, e.type_nth, e.run_nth, e.salt, e.meta, e.body, e.blob_no, e.address, e.size, e.ref, e.chain,
       e.mac, b.body
FROM events AS e LEFT JOIN blobs AS b ON b.no = e.blob_no
WHERE e.session_no = :session_no AND e.type = :type AND e.seq > :low AND e.seq < :high
ORDER BY e.seq DESC
LIMIT :limit;

-- name: events_of_run_oldest_first
-- A part of the log of one run, from its start.
SELECT e.session_no, e.seq, e.event_id, e.given_id, e.type, e.level, e.recorded_us, e.run_id, e.epoch,
       e.content, e.type_nth, e.run_nth, e.salt, e.meta, e.body, e.blob_no, e.address, e.size, e.ref, e.chain,
       e.mac, b.body
FROM events AS e LEFT JOIN blobs AS b ON b.no = e.blob_no
WHERE e.session_no = :session_no AND e.run_id = :run_id AND e.seq > :low AND e.seq < :high
ORDER BY e.seq
LIMIT :limit;

-- name: events_of_run_newest_first
-- A part of the log of one run, from its end.
SELECT e.session_no, e.seq, e.event_id, e.given_id, e.type, e.level, e.recorded_us, e.run_id, e.epoch,
       e.content, e.type_nth, e.run_nth, e.salt, e.meta, e.body, e.blob_no, e.address, e.size, e.ref, e.chain,
       e.mac, b.body
FROM events AS e LEFT JOIN blobs AS b ON b.no = e.blob_no
WHERE e.session_no = :session_no AND e.run_id = :run_id AND e.seq > :low AND e.seq < :high
ORDER BY e.seq DESC
LIMIT :limit;

-- name: events_about
-- The events of a session that are about something, or about what shares its bucket; in the index's order.
SELECT e.session_no, e.seq, e.event_id, e.given_id, e.type, e.level, e.recorded_us, e.run_id, e.epoch,
       e.content, e.type_nth, e.run_nth, e.salt, e.meta, e.body, e.blob_no, e.address, e.size, e.ref, e.chain,
       e.mac, b.body
FROM events AS e LEFT JOIN blobs AS b ON b.no = e.blob_no
WHERE e.session_no = :session_no AND e.ref >= :low AND e.ref < :high;

-- name: add_touch
-- What an event changed in the world, for other sessions to find.
INSERT INTO touches (tag, recorded_us, session_no, seq) VALUES (:tag, :recorded_us, :session_no, :seq);

-- name: touched_since
-- What an owner's sessions changed of a resource or subject since a time, newest first.
SELECT s.session_id, t.seq, t.recorded_us
FROM touches AS t JOIN sessions AS s ON s.no = t.session_no
WHERE t.tag = :tag AND t.recorded_us > :since_us AND s.tenant_id = :tenant_id AND s.owner = :owner
ORDER BY t.recorded_us DESC
LIMIT :limit;

-- name: tags_of_session
-- What a session changed in the world.
SELECT DISTINCT tag FROM touches WHERE session_no = :session_no LIMIT :limit;

-- name: forks_of
-- The sessions that go on from a part of this one's log.
SELECT session_id FROM sessions WHERE forked_from = :session_id AND tenant_id = :tenant_id AND owner = :owner
ORDER BY no;

-- name: all_heads
-- Every session's head, to compare with the ledger.
SELECT no, session_id, version, head_seq, head_chain, base_seq, tenant_id, owner, external
FROM sessions ORDER BY no;

-- name: chain_at
-- The chain value at a place of a session's log.
SELECT chain FROM events WHERE session_no = :session_no AND seq = :seq;

-- name: chain_in_session
-- The chain value at a place of a session's own log, by the session's id.
SELECT e.chain FROM events AS e JOIN sessions AS s ON s.no = e.session_no
WHERE s.session_id = :session_id AND e.seq = :seq;

-- name: event_behind
-- Whether anything stands behind a session's newest event, where only a forger can have put it.
SELECT 1 FROM events WHERE session_no = :session_no AND seq > :seq LIMIT 1;

-- name: all_sessions
-- Every session, for verification.
SELECT no, session_id, tenant_id, owner, external, state, version, epoch, head_seq, head_chain, tails,
       created_us, updated_us, used_hour, ended_us, lease, forked_from, base_seq, base_chain, about, mac
FROM sessions ORDER BY no;

-- name: all_events_of_session
-- Every event of a session without payloads, for verification.
SELECT session_no, seq, event_id, given_id, type, level, recorded_us, run_id, epoch, content, type_nth,
       run_nth, salt, meta, body, blob_no, address, size, ref, chain, mac
FROM events WHERE session_no = :session_no ORDER BY seq;

-- name: all_blobs_of_session
-- Every blob of a session, for verification.
SELECT no, session_no, epoch, content_id, address, size, body, mac
FROM blobs WHERE session_no = :session_no ORDER BY no;

-- name: all_runs_of_session
-- Every kept run count of a session, for verification.
SELECT session_no, run_id, written, mac FROM runs WHERE session_no = :session_no;

-- name: all_labels_of_session
-- Every label index of a session, for verification.
SELECT label FROM labels WHERE session_no = :session_no;

-- name: all_touches_of_session
-- Every entry of a session in the index of what it changed in the world, for verification.
SELECT tag, recorded_us, seq FROM touches WHERE session_no = :session_no;

-- name: stray_rows
-- Rows that belong to no session, for verification.
SELECT 'event', session_no FROM events WHERE session_no NOT IN (SELECT no FROM sessions)
UNION ALL SELECT 'blob', session_no FROM blobs WHERE session_no NOT IN (SELECT no FROM sessions)
UNION ALL SELECT 'run', session_no FROM runs WHERE session_no NOT IN (SELECT no FROM sessions)
UNION ALL SELECT 'touch', session_no FROM touches WHERE session_no NOT IN (SELECT no FROM sessions)
UNION ALL SELECT 'label', session_no FROM labels WHERE session_no NOT IN (SELECT no FROM sessions);

-- name: root_row
-- Whose keys these are, and what the root key's provider needs.
SELECT vault_id, provider, record FROM root;

-- name: keep_root
-- Writes the root record.
INSERT INTO root (vault_id, provider, record) VALUES (:vault_id, :provider, :record)
ON CONFLICT (vault_id) DO UPDATE SET provider = excluded.provider, record = excluded.record;

-- name: add_key
-- A wrapped key.
INSERT INTO keys (purpose, scope, epoch, owner, wrapped) VALUES (:purpose, :scope, :epoch, :owner, :wrapped);

-- name: key
-- The wrapped key of a place and owner.
SELECT purpose, scope, epoch, owner, wrapped FROM keys
WHERE purpose = :purpose AND scope = :scope AND epoch = :epoch AND owner = :owner;

-- name: key_exists
-- Whether a place has a key, whoever owns it.
SELECT 1 FROM keys WHERE purpose = :purpose AND scope = :scope AND epoch = :epoch;

-- name: all_keys
-- Every wrapped key, for verification and re-wrapping.
SELECT purpose, scope, epoch, owner, wrapped FROM keys ORDER BY purpose, scope, epoch;
