-- What every open process drops from memory: the scopes that lost a key last, whichever process took it away.

CREATE TABLE withdrawn (
    number INTEGER NOT NULL PRIMARY KEY,        -- counts them; the newest always stays, so it only grows
    scope  BLOB    NOT NULL
) STRICT;

-- By triggers, so that nothing that ends a key can leave it out; the same commit does both.
CREATE TRIGGER destroyed_is_told AFTER INSERT ON destroyed
BEGIN
    INSERT INTO withdrawn (scope) VALUES (NEW.scope);
    DELETE FROM withdrawn WHERE number <= (SELECT max(number) FROM withdrawn) - 4096;
END;

-- Of a key that was condemned the tombstone has told already.
CREATE TRIGGER dropped_is_told AFTER DELETE ON keys WHEN OLD.dying IS NULL
BEGIN
    INSERT INTO withdrawn (scope) VALUES (OLD.scope);
    DELETE FROM withdrawn WHERE number <= (SELECT max(number) FROM withdrawn) - 4096;
END;
