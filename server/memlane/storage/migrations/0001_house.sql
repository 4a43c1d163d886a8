-- The house: tenants, keys and lanes, channels, memories, their revisions, the ledger.
--
-- Every row of a tenant leads its primary key with project_id, so that each table can later be
-- hash-partitioned or distributed by tenant without a change in a query.

create table organizations (
    id          uuid        primary key,
    slug        text        not null unique check (slug ~ '^[a-z0-9][a-z0-9-]{0,62}$'),
    name        text        not null,
    plan_code   text,
    created_at  timestamptz not null default clock_timestamp()
);

-- Managed deployments resolve an organization's features from its plan, merged with an override.
create table plans (
    code      text  primary key,
    features  jsonb not null default '{}',
    limits    jsonb not null default '{}'
);

create table entitlement_overrides (
    organization_id uuid        primary key references organizations (id),
    active          boolean     not null default true,
    features        jsonb       not null default '{}',
    limits          jsonb       not null default '{}',
    expires_at      timestamptz
);

create table projects (
    id              uuid        primary key,
    organization_id uuid        not null references organizations (id),
    slug            text        not null unique check (slug ~ '^[a-z0-9][a-z0-9-]{0,62}$'),
    name            text        not null,
    created_at      timestamptz not null default clock_timestamp()
);

-- A lane says how far its writers are trusted and whether they may write at all.
create table lanes (
    project_id uuid        not null references projects (id),
    id         uuid        not null,
    name       text        not null check (name ~ '^[a-z0-9][a-z0-9-]{0,62}$'),
    trust      text        not null check (trust in ('trusted', 'internal', 'untrusted')),
    mode       text        not null check (mode in ('read-write', 'read-only', 'off')),
    note       text        not null default '',
    owner      text        not null default '',
    created_at timestamptz not null default clock_timestamp(),
    primary key (project_id, id),
    unique (project_id, name)
);

-- Only a hash of a key's secret is stored. A key is in exactly one lane.
create table runtime_keys (
    project_id     uuid        not null,
    id             uuid        not null,
    lane_id        uuid        not null,
    short          text        not null unique,
    secret_sha256  bytea       not null check (length(secret_sha256) = 32),
    label          text        not null default '',
    user_access    text        not null check (user_access in ('none', 'read', 'read-write')),
    project_access text        not null check (project_access in ('none', 'read', 'read-write')),
    created_at     timestamptz not null default clock_timestamp(),
    expires_at     timestamptz,
    revoked_at     timestamptz,
    primary key (project_id, id),
    foreign key (project_id, lane_id) references lanes (project_id, id)
);

-- Only vectors of one space are ever compared.
create table embedding_spaces (
    id          integer     generated always as identity primary key,
    provider    text        not null,
    model       text        not null,
    dimensions  integer     not null check (dimensions between 1 and 4000),
    fingerprint text        not null default '',
    created_at  timestamptz not null default clock_timestamp(),
    unique (provider, model, dimensions, fingerprint)
);

-- A channel is one feed: a project's user, or the project (user_id is then ''). Its row is the lock
-- that every write of the channel takes; seq is dense, epoch changes when history does (a restore).
create table channels (
    project_id uuid        not null references projects (id),
    id         uuid        not null,
    scope      text        not null check (scope in ('user', 'project')),
    user_id    text        not null,
    seq        bigint      not null default 0,
    epoch      text        not null default replace(gen_random_uuid()::text, '-', ''),
    join_code  text        not null unique default replace(gen_random_uuid()::text || gen_random_uuid()::text, '-', ''),
    created_at timestamptz not null default clock_timestamp(),
    primary key (project_id, id),
    unique (project_id, scope, user_id),
    check ((scope = 'project') = (user_id = ''))
);

-- The memories table is the change log: each row carries the seq of its latest change.
create table memories (
    project_id        uuid        not null,
    id                uuid        not null,
    channel_id        uuid        not null,
    scope             text        not null check (scope in ('user', 'project')),
    kind              text        not null check (kind in ('topical', 'episodic', 'operational')),
    content           text        not null,
    source_thread_ids text[]      not null default '{}',
    created_at        timestamptz not null,
    updated_at        timestamptz not null,
    retired_at        timestamptz,
    superseded_by     uuid,
    seq               bigint      not null,
    absorb_key        bytea       check (length(absorb_key) = 32),
    canonical_version smallint    not null,
    terms             text[]      not null,
    terms_version     smallint    not null,
    space_id          integer     not null references embedding_spaces (id),
    embedding         halfvec     not null,
    primary key (project_id, id),
    foreign key (project_id, channel_id) references channels (project_id, id)
) with (toast_tuple_target = 4080);  -- keeps vectors of up to 1,500 dimensions in the row: an exact search reads no TOAST

-- One live row for each thing said: the last guard against two twins.
create unique index memories_one_live_twin on memories (project_id, channel_id, kind, absorb_key)
    where retired_at is null and absorb_key is not null;
-- The exact search and the default list read the live rows of a channel.
create index memories_live on memories (project_id, channel_id, created_at desc, id desc) where retired_at is null;
-- "What changed since n".
create unique index memories_changes on memories (project_id, channel_id, seq);

-- Wording that an absorb replaced.
create table memory_revisions (
    project_id        uuid        not null,
    memory_id         uuid        not null,
    seq               bigint      not null,
    content           text        not null,
    source_thread_ids text[]      not null,
    written_at        timestamptz not null,
    replaced_at       timestamptz not null,
    primary key (project_id, memory_id, seq)
);

-- Kept beside the memories and written in sorted batches: a recall never takes a channel's lock.
create table memory_recalls (
    project_id   uuid        not null,
    memory_id    uuid        not null,
    recalled_at  timestamptz not null,
    recall_count bigint      not null default 0,
    primary key (project_id, memory_id)
);

-- Who wrote what, from what, and what changed. Append-only; holds no wording.
create table write_ledger (
    project_id    uuid        not null,
    id            bigint      generated always as identity,
    channel_id    uuid        not null,
    seq           bigint      not null,
    memory_id     uuid        not null,
    operation     text        not null check (operation in
                  ('created', 'absorbed', 'superseded', 'retired', 'restored', 'purged')),
    absorbed_by   text        check (absorbed_by in ('form', 'judge')),
    lane_id       uuid        not null,
    lane_name     text        not null,
    key_id        uuid,
    run           text        not null default 'unknown',
    source_type   text        not null default 'unknown',
    source_id     text        not null default 'unknown',
    source_trust  text        not null,
    triggered_by  text        not null default 'unknown',
    request_id    text        not null,
    written_at    timestamptz not null default clock_timestamp(),
    before_sha256 bytea,
    after_sha256  bytea,
    primary key (project_id, id)
);
create index write_ledger_memory on write_ledger (project_id, memory_id, id);

-- A retry within 24 hours gets the first answer again.
create table idempotency_keys (
    project_id     uuid        not null,
    user_id        text        not null,
    key            text        not null,
    request_sha256 bytea       not null,
    memory_id      uuid        not null,
    answer         jsonb       not null,
    created_at     timestamptz not null default clock_timestamp(),
    primary key (project_id, user_id, key)
);
create index idempotency_keys_age on idempotency_keys (created_at);

-- A user's log-out ends every stream session that began before it.
create table stream_logouts (
    project_id uuid        not null,
    user_id    text        not null,
    ended_at   timestamptz not null,
    primary key (project_id, user_id)
);
