-- Agents: who may write, a ledger that shows when it was tampered with, and erasure.

-- When the operator accepted that a lane which reads untrusted input writes.
alter table lanes add column untrusted_writes_accepted_at timestamptz;

-- Each ledger row is chained to its channel's row before it; the channel's row holds the head, so that it is written
-- under the lock that every write holds anyway. Rows from before this migration have no chain.
alter table channels
    add column ledger_rows   bigint not null default 0,
    add column ledger_sha256 bytea  check (length(ledger_sha256) = 32),
    -- Counted with each write: a channel's limit of live rows is checked without counting them.
    add column live_rows     bigint not null default 0;
alter table write_ledger add column chain_sha256 bytea check (length(chain_sha256) = 32);
create unique index write_ledger_channel on write_ledger (project_id, channel_id, seq);
update channels c
   set live_rows = (select count(*) from memories m
                     where m.project_id = c.project_id and m.channel_id = c.id and m.retired_at is null);

-- The ledger's hashes of a memory's wordings are salted; a purge erases salt, wording and vector, and leaves the row
-- as a tombstone, so that every stream learns that it is gone.
alter table memories
    add column wording_salt bytea default uuid_send(gen_random_uuid()),
    add column purged_at    timestamptz,
    alter column embedding drop not null;
alter table memories add constraint memories_purged_is_empty check (
    purged_at is null or (retired_at is not null and content = '' and embedding is null and wording_salt is null)
);

-- What an operator sets for a project: null is the deployment's own limit.
alter table projects
    add column screen_secrets    boolean not null default true,
    add column max_live_memories bigint  check (max_live_memories > 0);
