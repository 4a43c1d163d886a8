-- A join token's session: from its first use it serves reconnects for MEMLANE_SESSION_HOURS.
create table stream_sessions (
    project_id    uuid        not null,
    session_id    text        not null,
    first_used_at timestamptz not null,
    primary key (project_id, session_id)
);
create index stream_sessions_age on stream_sessions (first_used_at);
