-- Logs that were sealed anew: re-encrypted, or with what they shared of another session taken over.

ALTER TABLE sessions ADD COLUMN renewed BLOB NOT NULL DEFAULT x'';    -- since which version of this row, and the chain values that forks name
