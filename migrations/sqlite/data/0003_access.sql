-- Access: a tenant's sessions, last used first, for those whose role sees them all.

CREATE INDEX sessions_by_tenant ON sessions (tenant_id, used_hour);

-- With tenant and owner, else the database would rather walk the whole tenant than look up a session's forks.
DROP INDEX sessions_by_fork;
CREATE INDEX sessions_by_fork ON sessions (forked_from, tenant_id, owner) WHERE forked_from IS NOT NULL;
