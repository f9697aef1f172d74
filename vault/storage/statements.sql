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
       created_us, updated_us, used_hour, ended_us, lease, forked_from, base_seq, base_chain, retention,
       due_hour, renewed, about, mac
FROM sessions
WHERE session_id = :session_id AND tenant_id = :tenant_id AND owner = :owner;

-- name: owner_of_session
-- Whose session it is, for the door to decide with; a row under it opens only with that owner's key.
SELECT owner FROM sessions WHERE session_id = :session_id AND tenant_id = :tenant_id;

-- name: session_by_external
-- The owner's session under the blind index of an external id.
SELECT no, session_id, tenant_id, owner, external, state, version, epoch, head_seq, head_chain, tails,
       created_us, updated_us, used_hour, ended_us, lease, forked_from, base_seq, base_chain, retention,
       due_hour, renewed, about, mac
FROM sessions
WHERE tenant_id = :tenant_id AND owner = :owner AND external = :external;

-- name: sessions_of_owner
-- A page of the owner's sessions, last used first.
SELECT no, session_id, tenant_id, owner, external, state, version, epoch, head_seq, head_chain, tails,
       created_us, updated_us, used_hour, ended_us, lease, forked_from, base_seq, base_chain, retention,
       due_hour, renewed, about, mac
FROM sessions
WHERE tenant_id = :tenant_id AND owner = :owner AND (used_hour, updated_us, no) < (:used_hour, :updated_us, :no)
ORDER BY used_hour DESC, updated_us DESC, no DESC
LIMIT :limit;

-- name: sessions_of_owner_labelled
-- A page of the owner's sessions that carry a label, last used first.
SELECT s.no, s.session_id, s.tenant_id, s.owner, s.external, s.state, s.version, s.epoch, s.head_seq,
       s.head_chain, s.tails, s.created_us, s.updated_us, s.used_hour, s.ended_us, s.lease,
       s.forked_from, s.base_seq, s.base_chain, s.retention, s.due_hour, s.renewed, s.about, s.mac
FROM sessions AS s
WHERE s.tenant_id = :tenant_id AND s.owner = :owner AND (s.used_hour, s.updated_us, s.no) < (:used_hour, :updated_us, :no)
  AND EXISTS (SELECT 1 FROM labels AS l WHERE l.label = :label AND l.session_no = s.no)
ORDER BY s.used_hour DESC, s.updated_us DESC, s.no DESC
LIMIT :limit;

-- name: sessions_of_tenant
-- A page of a tenant's sessions, last used first, for those whose role sees them all: the door decides on each.
SELECT session_id, used_hour, updated_us, no
FROM sessions
WHERE tenant_id = :tenant_id AND (used_hour, updated_us, no) < (:used_hour, :updated_us, :no)
ORDER BY used_hour DESC, updated_us DESC, no DESC
LIMIT :limit;

-- name: counts_of_tenant
-- How many sessions and events a tenant has besides its audit trail, and bytes beside the events and apart.
SELECT count(no), coalesce(sum(head_seq - base_seq), 0),
       (SELECT coalesce(sum(e.size), 0) FROM sessions AS s JOIN events AS e ON e.session_no = s.no
        WHERE s.tenant_id = :tenant_id AND s.owner <> :trail AND e.blob_no IS NULL),
       (SELECT coalesce(sum(b.size), 0) FROM sessions AS s JOIN blobs AS b ON b.session_no = s.no
        WHERE s.tenant_id = :tenant_id AND s.owner <> :trail)
FROM sessions
WHERE tenant_id = :tenant_id AND owner <> :trail;

-- name: add_session
-- A new session; its number comes back.
INSERT INTO sessions (session_id, tenant_id, owner, external, state, version, epoch, head_seq, head_chain,
                      tails, created_us, updated_us, used_hour, ended_us, lease, forked_from, base_seq,
                      base_chain, retention, due_hour, renewed, about, mac)
VALUES (:session_id, :tenant_id, :owner, :external, :state, :version, :epoch, :head_seq, :head_chain,
        :tails, :created_us, :updated_us, :used_hour, :ended_us, :lease, :forked_from,
        :base_seq, :base_chain, :retention, :due_hour, :renewed, :about, :mac)
RETURNING no;

-- name: add_label
-- The blind index of one label of a session.
INSERT INTO labels (label, session_no) VALUES (:label, :session_no);

-- name: remove_label
-- The blind index of a label that a session lost.
DELETE FROM labels WHERE label = :label AND session_no = :session_no;

-- name: move_session
-- The compare-and-set of a session's head: the one place that decides the order of its log.
UPDATE sessions
SET state = :state, version = :version, epoch = :epoch, head_seq = :head_seq, head_chain = :head_chain,
    tails = :tails, updated_us = :updated_us, ended_us = :ended_us, lease = :lease, retention = :retention,
    due_hour = :due_hour, about = :about, mac = :mac
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

-- name: renew_session
-- A session whose log was sealed anew in this transaction; the same compare-and-set.
UPDATE sessions
SET state = :state, version = :version, epoch = :epoch, head_chain = :head_chain, tails = :tails,
    forked_from = :forked_from, base_seq = :base_seq, base_chain = :base_chain, renewed = :renewed,
    about = :about, mac = :mac
WHERE no = :no AND mac = :expected_mac;

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

-- name: events_of_blob
-- The events that name a blob.
SELECT seq FROM events WHERE blob_no = :blob_no AND session_no = :session_no;

-- name: blob_to_blank
-- A blob that is to be emptied, and whether it stands in the blob area.
SELECT no, epoch, address, size, body IS NULL FROM blobs WHERE no = :no AND session_no = :session_no;

-- name: blob_whole
-- A blob with what stands in its row.
SELECT no, session_no, epoch, content_id, address, size, body, mac FROM blobs
WHERE no = :no AND session_no = :session_no;

-- name: blobs_of_epochs
-- The blobs of some epochs of a session, to be emptied.
SELECT no, epoch, address, size, body IS NULL FROM blobs
WHERE session_no = :session_no AND epoch >= :low AND epoch < :high;

-- name: blank_blob
-- Empties a blob whose events are erased while their session lives on; its row stays, for they name it.
UPDATE blobs SET body = :emptied, content_id = :content_id, mac = :mac
WHERE no = :no AND session_no = :session_no;

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

-- name: places_forked
-- The places of a session's log that forks of it, whoever's, go on from, and the chain values they name.
SELECT base_seq, base_chain FROM sessions WHERE forked_from = :session_id;

-- name: all_heads
-- Every session's head, to compare with the ledger.
SELECT no, session_id, version, head_seq, head_chain, base_seq, renewed, tenant_id, owner, external
FROM sessions ORDER BY no;

-- name: chain_at
-- The chain value at a place of a session's log.
SELECT chain FROM events WHERE session_no = :session_no AND seq = :seq;

-- name: chain_in_session
-- The chain value at a place of a session's own log, by the session's id.
SELECT e.chain FROM events AS e JOIN sessions AS s ON s.no = e.session_no
WHERE s.session_id = :session_id AND e.seq = :seq;

-- name: renewal_of_session
-- What a session's row says about a log that was sealed anew.
SELECT renewed FROM sessions WHERE session_id = :session_id;

-- name: event_behind
-- Whether anything stands behind a session's newest event, where only a forger can have put it.
SELECT 1 FROM events WHERE session_no = :session_no AND seq > :seq LIMIT 1;

-- name: all_sessions
-- Every session, for verification.
SELECT no, session_id, tenant_id, owner, external, state, version, epoch, head_seq, head_chain, tails,
       created_us, updated_us, used_hour, ended_us, lease, forked_from, base_seq, base_chain, retention,
       due_hour, renewed, about, mac
FROM sessions ORDER BY no;

-- name: all_events_of_session
-- Every event of a session without payloads, for verification.
SELECT session_no, seq, event_id, given_id, type, level, recorded_us, run_id, epoch, content, type_nth,
       run_nth, salt, meta, body, blob_no, address, size, ref, chain, mac
FROM events WHERE session_no = :session_no ORDER BY seq;

-- name: events_of_a_type
-- The events of one type, with the payloads that stand beside them, for verification.
SELECT e.session_no, e.seq, e.event_id, e.given_id, e.type, e.level, e.recorded_us, e.run_id, e.epoch,
       e.content, e.type_nth, e.run_nth, e.salt, e.meta, coalesce(e.body, b.body), e.blob_no, e.address, e.size,
       e.ref, e.chain, e.mac
FROM events AS e LEFT JOIN blobs AS b ON b.no = e.blob_no
WHERE e.session_no = :session_no AND e.type = :type ORDER BY e.seq;

-- name: event_at_place
-- The id of the event at a place, and whether its payload stands in a row of its own and is there.
SELECT e.event_id, e.blob_no IS NOT NULL AND (b.body IS NULL OR length(b.body) > 0)
FROM events AS e LEFT JOIN blobs AS b ON b.no = e.blob_no
WHERE e.session_no = :session_no AND e.seq = :seq;

-- name: number_of_session
-- The number of a session, by its id.
SELECT no FROM sessions WHERE session_id = :session_id;

-- name: facts_since
-- Facts of one type in a part of a session's own log, by its id, with what their keys are found by.
SELECT s.tenant_id, s.owner, s.epoch, s.session_id, e.session_no, e.seq, e.event_id, e.given_id, e.type, e.level,
       e.recorded_us, e.run_id, e.epoch, e.content, e.type_nth, e.run_nth, e.salt, e.meta,
       coalesce(e.body, b.body), e.blob_no, e.address, e.size, e.ref, e.chain, e.mac
FROM sessions AS s JOIN events AS e ON e.session_no = s.no LEFT JOIN blobs AS b ON b.no = e.blob_no
WHERE s.session_id = :session_id AND e.type = :type AND e.seq > :low AND e.seq <= :high ORDER BY e.seq;

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
INSERT INTO keys (purpose, scope, epoch, owner, wrapped, tenant_id)
VALUES (:purpose, :scope, :epoch, :owner, :wrapped, :tenant_id);

-- name: key
-- The wrapped key of a place and owner, and whether it was destroyed: then somebody put it back.
SELECT purpose, scope, epoch, owner, wrapped, tenant_id,
       EXISTS (SELECT 1 FROM destroyed AS d
               WHERE d.purpose = :purpose AND d.scope = :scope AND d.epoch IN (:epoch, -1))
FROM keys
WHERE purpose = :purpose AND scope = :scope AND epoch = :epoch AND owner = :owner AND dying IS NULL;

-- name: owner_of_scope
-- Whose the keys of a scope are: all of them are one owner's, so the first one tells.
SELECT owner FROM keys WHERE purpose = :purpose AND scope = :scope ORDER BY epoch LIMIT 1;

-- name: drop_key
-- A key that another one has taken the place of: what was sealed under it is sealed anew.
DELETE FROM keys
WHERE purpose = :purpose AND scope = :scope AND epoch = :epoch AND dying IS NULL;

-- name: key_exists
-- Whether a place has a key, whoever owns it.
SELECT 1 FROM keys WHERE purpose = :purpose AND scope = :scope AND epoch = :epoch;

-- name: all_keys
-- Every wrapped key that is neither dying nor destroyed, for verification and re-wrapping.
SELECT purpose, scope, epoch, owner, wrapped, tenant_id FROM keys AS k
WHERE dying IS NULL
  AND NOT EXISTS (SELECT 1 FROM destroyed AS d
                  WHERE d.purpose = k.purpose AND d.scope = k.scope AND d.epoch IN (k.epoch, -1))
ORDER BY purpose, scope, epoch;

-- name: keys_of_tenant
-- Every live key of a tenant, to wrap them anew; of an empty tenant, those of older rows, and the vault's own.
SELECT purpose, scope, epoch, owner, wrapped, tenant_id FROM keys AS k
WHERE tenant_id = :tenant_id AND dying IS NULL
  AND NOT EXISTS (SELECT 1 FROM destroyed AS d
                  WHERE d.purpose = k.purpose AND d.scope = k.scope AND d.epoch IN (k.epoch, -1));

-- name: keys_under_root
-- Every live key that is wrapped under the root key, to wrap them anew.
SELECT purpose, scope, epoch, owner, wrapped, tenant_id FROM keys AS k
WHERE purpose IN (:first, :second, :third) AND dying IS NULL
  AND NOT EXISTS (SELECT 1 FROM destroyed AS d
                  WHERE d.purpose = k.purpose AND d.scope = k.scope AND d.epoch IN (k.epoch, -1))
ORDER BY purpose, scope, epoch;

-- name: rewrap_key
-- The same key under another parent.
UPDATE keys SET wrapped = :wrapped
WHERE purpose = :purpose AND scope = :scope AND epoch = :epoch AND dying IS NULL;

-- name: adopt_keys
-- Whose an owner's keys are, in rows that were written before it was kept.
UPDATE keys SET tenant_id = :tenant_id WHERE tenant_id = :nobody AND purpose = :purpose AND owner = :owner;

-- name: all_keys_counted
-- How many live and dying keys there are, by tenant and purpose.
SELECT tenant_id, purpose, count(purpose), count(dying) FROM keys GROUP BY tenant_id, purpose
ORDER BY tenant_id, purpose;

-- name: wrapped_key
-- A key's wrap as it is now, to see that what was wrapped under it still hangs there.
SELECT wrapped FROM keys WHERE purpose = :purpose AND scope = :scope AND epoch = :epoch AND dying IS NULL;

-- name: destroyer
-- The operation that destroyed a place's key, alone, under the number that events have, or with all of its scope.
SELECT operation FROM destroyed
WHERE purpose = :purpose AND scope = :scope AND epoch IN (:epoch, :epoch % 4294967296, -1)
ORDER BY epoch DESC LIMIT 1;

-- name: epochs_of_scope
-- The numbers of a session's keys that are not dying.
SELECT epoch FROM keys WHERE purpose = :purpose AND scope = :scope AND dying IS NULL;

-- name: epochs_due
-- A page of the epochs whose hour is over, with what is dying among them, the earliest first.
SELECT scope, epoch, owner, tenant_id FROM keys
WHERE purpose = :purpose AND epoch > 0 AND epoch % 1048576 BETWEEN :hour AND :until
  AND (epoch % 1048576, scope, epoch) > (:hour, :scope, :epoch)
ORDER BY epoch % 1048576, scope, epoch LIMIT :limit;

-- name: graves_of_operation
-- The epochs that an operation destroyed by themselves, or is destroying.
SELECT scope, epoch, owner, tenant_id FROM destroyed WHERE operation = :operation AND epoch > 0;

-- name: keys_of_scope
-- All keys of a scope, to condemn them.
SELECT epoch, owner, wrapped, tenant_id FROM keys
WHERE purpose = :purpose AND scope = :scope ORDER BY epoch;

-- name: condemn_key
-- Marks a key for its destruction: from here on nobody reads it.
UPDATE keys SET dying = :operation
WHERE purpose = :purpose AND scope = :scope AND epoch = :epoch AND dying IS NULL;

-- name: add_tombstone
-- A place whose key is gone for good; the first operation that says so counts.
INSERT INTO destroyed (purpose, scope, epoch, owner, tenant_id, fingerprint, operation, destroyed_us)
VALUES (:purpose, :scope, :epoch, :owner, :tenant_id, :fingerprint, :operation, :destroyed_us)
ON CONFLICT (purpose, scope, epoch) DO NOTHING;

-- name: tombstones_of_scope
-- What was destroyed of a scope.
SELECT purpose, scope, epoch, owner, tenant_id, fingerprint, operation, destroyed_us FROM destroyed
WHERE purpose = :purpose AND scope = :scope ORDER BY epoch;

-- name: tombstones_of_tenant
-- A page of what was destroyed as a whole of a tenant: not of the epochs of a session that lives on.
SELECT purpose, scope, epoch, owner, tenant_id, fingerprint, operation, destroyed_us FROM destroyed AS d
WHERE tenant_id = :tenant_id AND (scope, purpose, epoch) > (:scope, :purpose, :epoch)
  AND purpose <> :external
  AND EXISTS (SELECT 1 FROM destroyed AS w WHERE w.purpose = d.purpose AND w.scope = d.scope AND w.epoch = -1)
ORDER BY scope, purpose, epoch LIMIT :limit;

-- name: tombstones
-- A page of all that was destroyed as a whole: not of the epochs of a session that lives on.
SELECT purpose, scope, epoch, owner, tenant_id, fingerprint, operation, destroyed_us FROM destroyed AS d
WHERE (purpose, scope, epoch) > (:purpose, :scope, :epoch)
  AND purpose <> :external
  AND EXISTS (SELECT 1 FROM destroyed AS w WHERE w.purpose = d.purpose AND w.scope = d.scope AND w.epoch = -1)
ORDER BY purpose, scope, epoch LIMIT :limit;

-- name: all_graves
-- The scopes that were destroyed as a whole.
SELECT scope FROM destroyed WHERE epoch = :whole AND purpose <> :external;

-- name: newest_withdrawn
-- The number of what lost a key last; asked before each use of a key in memory, so it reads one page.
SELECT max(number) FROM withdrawn;

-- name: withdrawn_after
-- The scopes that lost a key since another one did.
SELECT number, scope FROM withdrawn WHERE number > :number ORDER BY number;

-- name: delete_dying_keys
-- Destroys what an operation condemned, some of it.
DELETE FROM keys WHERE (purpose, scope, epoch) IN
    (SELECT purpose, scope, epoch FROM keys WHERE dying = :operation LIMIT :limit);

-- name: operations_dying
-- The operations that condemned keys and have not yet destroyed them.
SELECT DISTINCT dying FROM keys WHERE dying IS NOT NULL ORDER BY dying;

-- name: scopes_dying
-- The scopes of a tenant whose keys are condemned and not yet destroyed.
SELECT k.scope FROM keys AS k
WHERE k.dying IS NOT NULL
  AND EXISTS (SELECT 1 FROM destroyed AS d
              WHERE d.purpose = k.purpose AND d.scope = k.scope AND d.epoch = k.epoch AND d.tenant_id = :tenant_id);

-- name: scope_destroyed
-- Whether anything of a scope was destroyed.
SELECT 1 FROM destroyed WHERE tenant_id = :tenant_id AND scope = :scope LIMIT 1;

-- name: hold
-- The tags of one hold, whoever's it is.
SELECT hold_id, tenant_id, tag, placed_us, lifted_us FROM holds WHERE hold_id = :hold_id ORDER BY tag;

-- name: add_hold
-- One tag of a hold.
INSERT INTO holds (hold_id, tenant_id, tag, placed_us, lifted_us)
VALUES (:hold_id, :tenant_id, :tag, :placed_us, 0);

-- name: lift_hold
-- Ends a hold, all its tags at once.
UPDATE holds SET lifted_us = :now_us
WHERE hold_id = :hold_id AND tenant_id = :tenant_id AND lifted_us = 0;

-- name: holds_of_tenant
-- All holds of a tenant, oldest first.
SELECT hold_id, tenant_id, tag, placed_us, lifted_us FROM holds
WHERE tenant_id = :tenant_id ORDER BY placed_us, hold_id, tag;

-- name: active_holds
-- What a tenant holds now.
SELECT tag, hold_id FROM holds WHERE tenant_id = :tenant_id AND lifted_us = 0;

-- name: holds_on
-- The active holds on a tag.
SELECT hold_id FROM holds WHERE tenant_id = :tenant_id AND tag = :tag AND lifted_us = 0;

-- name: add_operation
-- An erasure, before anything of it is done.
INSERT INTO operations (operation_id, tenant_id, state, opened_us, plan, mac)
VALUES (:operation_id, :tenant_id, :state, :opened_us, :plan, :mac);

-- name: operation
-- One erasure by its id.
SELECT no, operation_id, tenant_id, state, opened_us, plan, mac FROM operations
WHERE operation_id = :operation_id;

-- name: move_operation
-- The next state of an erasure, if it is still as it was.
UPDATE operations SET state = :state, plan = :plan, mac = :mac
WHERE operation_id = :operation_id AND mac = :expected_mac;

-- name: unfinished_operations
-- Erasures that a crash or a failing store left unfinished.
SELECT no, operation_id, tenant_id, state, opened_us, plan, mac FROM operations
WHERE state <> 'done' ORDER BY no;

-- name: add_receipt
-- A signed receipt.
INSERT INTO receipts (operation_id, number, tenant_id, content)
VALUES (:operation_id, :number, :tenant_id, :content);

-- name: newest_receipt
-- The newest receipt of a tenant, which the next one follows.
SELECT operation_id, number, tenant_id, content FROM receipts
WHERE tenant_id = :tenant_id ORDER BY number DESC LIMIT 1;

-- name: receipts_of_operation
-- The receipts of one erasure, in the order they were signed.
SELECT operation_id, number, tenant_id, content FROM receipts
WHERE operation_id = :operation_id ORDER BY number;

-- name: receipts_of_tenant
-- The receipts of a tenant, newest first.
SELECT operation_id, number, tenant_id, content FROM receipts
WHERE tenant_id = :tenant_id ORDER BY number DESC LIMIT :limit;

-- name: all_receipts
-- Every receipt, for verification.
SELECT operation_id, number, tenant_id, content FROM receipts ORDER BY tenant_id, number;

-- name: session_to_erase
-- A session whoever owns it, for its erasure.
SELECT no, session_id, tenant_id, owner, external, state, version, epoch, head_seq, head_chain, tails,
       created_us, updated_us, used_hour, ended_us, lease, forked_from, base_seq, base_chain, retention,
       due_hour, renewed, about, mac
FROM sessions WHERE session_id = :session_id AND tenant_id = :tenant_id;

-- name: sessions_to_erase
-- The sessions of an owner, for their erasure.
SELECT session_id FROM sessions WHERE tenant_id = :tenant_id AND owner = :owner;

-- name: sessions_of_tenant_to_erase
-- The sessions of a whole tenant, for their erasure.
SELECT session_id FROM sessions WHERE tenant_id = :tenant_id;

-- name: sessions_labelled_to_erase
-- The sessions of a tenant that carry a label, for their erasure.
SELECT s.session_id FROM labels AS l JOIN sessions AS s ON s.no = l.session_no
WHERE l.label = :label AND s.tenant_id = :tenant_id;

-- name: item_to_erase
-- A derived item, for its erasure.
SELECT no, item_id, tenant_id, owner, kind, name, space, version, state, hung, sources, created_us, changed_us,
       retention, due_hour, content, about, body, address, size, mac
FROM items WHERE item_id = :item_id AND tenant_id = :tenant_id;

-- name: sources_of
-- What a derived item came from.
SELECT l.source FROM lineage AS l JOIN items AS i ON i.no = l.item_no
WHERE i.item_id = :item_id AND i.tenant_id = :tenant_id;

-- name: labels_of
-- The labels of a session, as tags that a hold may name.
SELECT l.label FROM labels AS l JOIN sessions AS s ON s.no = l.session_no
WHERE s.session_id = :session_id AND s.tenant_id = :tenant_id;

-- name: item_facts
-- What decides about a derived item.
SELECT kind, owner, state, hung, created_us, retention FROM items
WHERE item_id = :item_id AND tenant_id = :tenant_id;

-- name: session_facts
-- What decides about a session.
SELECT owner, forked_from, created_us, updated_us, ended_us, retention FROM sessions
WHERE session_id = :session_id AND tenant_id = :tenant_id;

-- name: session_as_planned
-- What an erasure of a session is planned from, and how much hangs on it: compared before it is carried out.
SELECT s.owner, s.forked_from,
       (SELECT count(f.no) FROM sessions AS f
        WHERE f.forked_from = s.session_id AND f.tenant_id = s.tenant_id AND f.owner = s.owner),
       (SELECT count(l.item_no) FROM lineage AS l WHERE l.source = s.session_id),
       s.created_us, s.updated_us, s.ended_us, s.retention
FROM sessions AS s
WHERE s.session_id = :id AND s.tenant_id = :tenant_id;

-- name: item_as_planned
-- The same for a derived item.
SELECT i.kind, i.owner, i.state, i.hung, i.created_us, i.retention,
       (SELECT count(l.item_no) FROM lineage AS l WHERE l.source = i.item_id)
FROM items AS i
WHERE i.item_id = :id AND i.tenant_id = :tenant_id;

-- name: sealed_of_session
-- Some of what a session has on disk, so that it can be looked for once it is deleted.
SELECT s.about, coalesce(e.body, b.body), e.address, e.body IS NULL AND b.body IS NULL AND e.blob_no IS NOT NULL
FROM sessions AS s LEFT JOIN events AS e ON e.session_no = s.no LEFT JOIN blobs AS b ON b.no = e.blob_no
WHERE s.session_id = :session_id AND s.tenant_id = :tenant_id ORDER BY e.seq DESC LIMIT :limit;

-- name: sealed_of_item
-- What a derived item has on disk, so that it can be looked for once it is deleted.
SELECT about, body, address, body IS NULL AND size > 0 FROM items
WHERE item_id = :item_id AND tenant_id = :tenant_id;

-- name: name_of_item
-- Whose a derived item is, and under which name.
SELECT owner, name FROM items WHERE item_id = :item_id AND tenant_id = :tenant_id;

-- name: all_session_ids
-- Every session, to find one that was erased and is there again.
SELECT session_id FROM sessions;

-- name: all_item_ids
-- Every derived item, to find one that was erased and is there again.
SELECT item_id FROM items;

-- name: all_files
-- The blob area's files that sessions and derived items name, with who does and its state.
SELECT b.address, s.session_id, s.state FROM blobs AS b JOIN sessions AS s ON s.no = b.session_no
WHERE b.body IS NULL
UNION ALL SELECT address, item_id, state FROM items WHERE body IS NULL AND size > 0;

-- name: all_fenced_sessions
-- Sessions that are being erased, for verification.
SELECT session_id FROM sessions WHERE state = 'erasing';

-- name: all_ids
-- The ids of all sessions and derived items, to hold against what was erased.
SELECT session_id FROM sessions UNION ALL SELECT item_id FROM items;

-- name: file_named
-- Whether anything names a file of the blob area.
SELECT 1 FROM blobs WHERE address = :address AND body IS NULL
UNION ALL SELECT 1 FROM items WHERE address = :address AND body IS NULL LIMIT 1;

-- name: whose
-- Whose a session or derived item is, and of what kind.
SELECT tenant_id, owner, 'session' FROM sessions WHERE session_id = :id
UNION ALL SELECT tenant_id, owner, kind FROM items WHERE item_id = :id;

-- name: item_file
-- Whether a derived item stands in the blob area, and where.
SELECT no, state, address, body IS NULL AND size > 0 FROM items
WHERE item_id = :item_id AND tenant_id = :tenant_id;

-- name: items_to_erase
-- The derived items of an owner, for their erasure.
SELECT item_id FROM items WHERE tenant_id = :tenant_id AND owner = :owner;

-- name: items_of_tenant_to_erase
-- The derived items of a whole tenant, for their erasure.
SELECT item_id FROM items WHERE tenant_id = :tenant_id;

-- name: items_named_to_erase
-- Every version of a derived item, for their erasure.
SELECT item_id FROM items WHERE tenant_id = :tenant_id AND owner = :owner AND name = :name ORDER BY version;

-- name: items_from
-- The derived items that came from a session or item.
SELECT i.item_id FROM lineage AS l JOIN items AS i ON i.no = l.item_no
WHERE l.source = :source AND i.tenant_id = :tenant_id;

-- name: sources_of_items_from
-- The derived items that came from a session or item, with all that each came from.
SELECT i.item_id, i.hung, i.sources FROM lineage AS l JOIN items AS i ON i.no = l.item_no
WHERE l.source = :source AND i.tenant_id = :tenant_id;

-- name: fence_session
-- A session that does not verify is fenced as it is: nothing keeps an erasure from it.
UPDATE sessions SET state = 'erasing' WHERE session_id = :session_id AND tenant_id = :tenant_id;

-- name: fence_item
-- A derived item that is being erased; its MAC then speaks of the state before, which no reader accepts.
UPDATE items SET state = 'erasing' WHERE item_id = :item_id AND tenant_id = :tenant_id;

-- name: restrict_item
-- A derived item that a hold keeps, for nobody to read; the sweep looks at it again.
UPDATE items SET state = 'erasing', due_hour = :due_hour WHERE item_id = :item_id AND tenant_id = :tenant_id;

-- name: area_blobs_of
-- The blobs of a session that stand in the blob area.
SELECT no, address FROM blobs WHERE session_no = :session_no AND body IS NULL LIMIT :limit;

-- name: delete_touches
-- What a session that is being erased changed in the world, some of it.
DELETE FROM touches WHERE (tag, recorded_us, session_no, seq) IN
    (SELECT tag, recorded_us, session_no, seq FROM touches WHERE session_no = :session_no LIMIT :limit);

-- name: delete_events
-- Events of a session that is being erased, some of them.
DELETE FROM events WHERE session_no = :session_no AND seq IN
    (SELECT seq FROM events WHERE session_no = :session_no ORDER BY seq LIMIT :limit);

-- name: delete_inline_blobs
-- Payloads in the database of a session that is being erased, some of them.
DELETE FROM blobs WHERE no IN
    (SELECT no FROM blobs WHERE session_no = :session_no AND body IS NOT NULL LIMIT :limit);

-- name: delete_blob
-- The row of a blob whose file is gone.
DELETE FROM blobs WHERE no = :no;

-- name: delete_blobs
-- The rows of all payloads of a session whose log is sealed anew in this transaction.
DELETE FROM blobs WHERE session_no = :session_no;

-- name: delete_runs
-- The run counts of a session that is being erased.
DELETE FROM runs WHERE session_no = :session_no;

-- name: delete_session
-- A session that is being erased, once nothing of it is left; its labels go with it.
DELETE FROM sessions WHERE no = :no AND state = 'erasing';

-- name: delete_lineage_of
-- Where a derived item came from.
DELETE FROM lineage WHERE item_no = :item_no;

-- name: delete_lineage_from
-- What came from something that is gone.
DELETE FROM lineage WHERE source = :source;

-- name: delete_item
-- A derived item that is being erased.
DELETE FROM items WHERE no = :no AND state = 'erasing';

-- name: item
-- A version of a derived item, of this tenant and owner.
SELECT no, item_id, tenant_id, owner, kind, name, space, version, state, hung, sources, created_us, changed_us,
       retention, due_hour, content, about, body, address, size, mac
FROM items
WHERE item_id = :item_id AND tenant_id = :tenant_id AND owner = :owner;

-- name: newest_item
-- The newest version of a name.
SELECT no, item_id, tenant_id, owner, kind, name, space, version, state, hung, sources, created_us, changed_us,
       retention, due_hour, content, about, body, address, size, mac
FROM items
WHERE tenant_id = :tenant_id AND owner = :owner AND name = :name
ORDER BY version DESC
LIMIT 1;

-- name: versions_of_item
-- A page of the versions of a name, newest first.
SELECT no, item_id, tenant_id, owner, kind, name, space, version, state, hung, sources, created_us, changed_us,
       retention, due_hour, content, about, body, address, size, mac
FROM items
WHERE tenant_id = :tenant_id AND owner = :owner AND name = :name AND version < :before
ORDER BY version DESC
LIMIT :limit;

-- name: spaces_of_owner
-- In which kinds and namespaces an owner has derived items, and whether anything came or went in each.
SELECT space, MAX(no), COUNT(no)
FROM items
WHERE tenant_id = :tenant_id AND owner = :owner
GROUP BY space
LIMIT :limit;

-- name: items_of_space
-- A page of the derived items of a kind and namespace that no newer version replaced.
SELECT no, item_id, tenant_id, owner, kind, name, space, version, state, hung, sources, created_us, changed_us,
       retention, due_hour, content, about, body, address, size, mac
FROM items
WHERE tenant_id = :tenant_id AND owner = :owner AND space = :space AND no > :after AND state <> 'superseded'
ORDER BY no
LIMIT :limit;

-- name: newest_items_of_space
-- The same page by page from its end.
SELECT no, item_id, tenant_id, owner, kind, name, space, version, state, hung, sources, created_us, changed_us,
       retention, due_hour, content, about, body, address, size, mac
FROM items
WHERE tenant_id = :tenant_id AND owner = :owner AND space = :space AND no < :before AND state <> 'superseded'
ORDER BY no DESC
LIMIT :limit;

-- name: items_made_from
-- What an owner derived from a session or a derived item.
SELECT i.no, i.item_id, i.tenant_id, i.owner, i.kind, i.name, i.space, i.version, i.state, i.hung, i.sources,
       i.created_us, i.changed_us, i.retention, i.due_hour, i.content, i.about, i.body, i.address, i.size, i.mac
FROM lineage AS l JOIN items AS i ON i.no = l.item_no
WHERE l.source = :source AND i.tenant_id = :tenant_id AND i.owner = :owner
ORDER BY l.item_no
LIMIT :limit;

-- name: lineage_of
-- What a derived item came from.
SELECT source FROM lineage WHERE item_no = :item_no;

-- name: add_item
-- A new version of a derived item; its number comes back.
INSERT INTO items (item_id, tenant_id, owner, kind, name, space, version, state, hung, sources, created_us,
                   changed_us, retention, due_hour, content, about, body, address, size, mac)
VALUES (:item_id, :tenant_id, :owner, :kind, :name, :space, :version, :state, :hung, :sources, :created_us,
        :changed_us, :retention, :due_hour, :content, :about, :body, :address, :size, :mac)
RETURNING no;

-- name: add_lineage
-- One thing that a derived item came from.
INSERT INTO lineage (source, item_no) VALUES (:source, :item_no);

-- name: move_item
-- The compare-and-set of a derived item: a new state or retention, if it is still as it was.
UPDATE items
SET state = :state, changed_us = :changed_us, retention = :retention, due_hour = :due_hour, mac = :mac
WHERE no = :no AND mac = :expected_mac AND state = :expected_state;

-- name: all_items
-- Every derived item, for verification.
SELECT no, item_id, tenant_id, owner, kind, name, space, version, state, hung, sources, created_us, changed_us,
       retention, due_hour, content, about, body, address, size, mac
FROM items WHERE no > :after ORDER BY no LIMIT :limit;

-- name: all_stray_lineage
-- Edges that lead to no derived item, for verification.
SELECT source, item_no FROM lineage WHERE item_no NOT IN (SELECT no FROM items);

-- name: all_doubtful_names
-- Names of which more than one version is live, or one that is not the newest, for verification.
SELECT tenant_id, owner, name
FROM items
GROUP BY tenant_id, owner, name
HAVING SUM(CASE state WHEN 'live' THEN 1 ELSE 0 END) > 1
    OR MAX(version) > MIN(CASE state WHEN 'live' THEN version END);

-- name: due_sessions
-- Sessions that may be due, by index: the longest due first.
SELECT session_id, tenant_id, due_hour, no FROM sessions
WHERE due_hour > 0 AND due_hour <= :hour AND (due_hour, no) > (:after_hour, :after_no) AND state <> 'erasing'
ORDER BY due_hour, no LIMIT :limit;

-- name: due_items
-- Derived items that may be due, by index: the longest due first.
SELECT item_id, tenant_id, due_hour, no FROM items
WHERE due_hour > 0 AND due_hour <= :hour AND (due_hour, no) > (:after_hour, :after_no)
ORDER BY due_hour, no LIMIT :limit;

-- name: look_at_session_in
-- The hour in which the sweep looks at a session again.
UPDATE sessions SET due_hour = :due_hour WHERE session_id = :id AND state <> 'erasing';

-- name: look_at_item_in
-- The hour in which the sweep looks at a derived item again.
UPDATE items SET due_hour = :due_hour WHERE item_id = :id;

-- name: count_live
-- How many sessions and derived items a tenant has.
SELECT 'session', count(no) FROM sessions WHERE tenant_id = :tenant_id
UNION ALL SELECT kind, count(no) FROM items WHERE tenant_id = :tenant_id GROUP BY kind;

-- name: sweeper
-- Who sweeps, and what time it is at least.
SELECT name, fence, until_us, high_us, ticked_us, mac FROM sweeper;

-- name: keep_sweeper
-- Writes the sweeper's row.
INSERT INTO sweeper (name, fence, until_us, high_us, ticked_us, mac)
VALUES (:name, :fence, :until_us, :high_us, :ticked_us, :mac)
ON CONFLICT (name) DO UPDATE SET fence = excluded.fence, until_us = excluded.until_us,
    high_us = excluded.high_us, ticked_us = excluded.ticked_us, mac = excluded.mac;

-- name: sessions_to_bind
-- A page of a tenant's sessions, last used last, for a policy that speaks of what is there already.
SELECT no, session_id, tenant_id, owner, external, state, version, epoch, head_seq, head_chain, tails,
       created_us, updated_us, used_hour, ended_us, lease, forked_from, base_seq, base_chain, retention,
       due_hour, renewed, about, mac
FROM sessions
WHERE tenant_id = :tenant_id AND (used_hour, no) > (:used_hour, :no) AND state <> 'erasing'
ORDER BY used_hour, no
LIMIT :limit;

-- name: items_to_bind
-- A page of a tenant's derived items, for the same.
SELECT no, item_id, tenant_id, owner, kind, name, space, version, state, hung, sources, created_us, changed_us,
       retention, due_hour, content, about, body, address, size, mac
FROM items
WHERE tenant_id = :tenant_id AND (owner, space, no) > (:owner, :space, :no) AND state <> 'erasing'
ORDER BY owner, space, no
LIMIT :limit;

-- name: stale_items
-- A page of what an owner is asked to make again.
SELECT no, item_id, tenant_id, owner, kind, name, space, version, state, hung, sources, created_us, changed_us,
       retention, due_hour, content, about, body, address, size, mac
FROM items
WHERE tenant_id = :tenant_id AND owner = :owner AND (space, no) > (:space, :no) AND state = :state
ORDER BY space, no
LIMIT :limit;
