-- What keeps recall and absorb up to date in the background: stale forms, embedding spaces, large channels.

-- The space that rows are moved to; set by `memlane embeddings activate`.
alter table embedding_spaces add column activated_at timestamptz;

-- Rows whose absorb key or terms are of an older version.
create index memories_versions on memories (canonical_version, terms_version);
-- Rows of a space, for a change of models.
create index memories_spaces on memories (space_id, project_id, id);
-- The words of the project scope: a large channel is not read whole.
create index memories_project_terms on memories using gin (terms) where scope = 'project' and retired_at is null;

-- Of a large project channel, by space: the mean vector, and how many of all its memories have each frequent term.
create table channel_statistics (
    project_id  uuid        not null,
    channel_id  uuid        not null,
    space_id    integer     not null references embedding_spaces (id),
    live        bigint      not null,
    rows        bigint      not null,
    centre      real[]      not null,
    terms       text[]      not null,
    counts      bigint[]    not null,
    seq         bigint      not null,
    computed_at timestamptz not null default clock_timestamp(),
    primary key (project_id, channel_id, space_id)
);
create index channels_of_projects on channels (project_id) where scope = 'project';
