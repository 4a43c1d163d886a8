-- name: lock_channel
-- The one lock of a channel. FOR NO KEY UPDATE conflicts with itself, but not with the foreign key
-- checks of rows that point here.
-- $1 project, $2 scope, $3 user ('' in the project scope)
select id::text, scope, seq, epoch, join_code, live_rows, ledger_sha256, clock_timestamp() as now
  from channels
 where project_id = $1 and scope = $2 and user_id = $3
   for no key update;

-- name: create_channel
-- $1 project, $2 new id, $3 scope, $4 user
insert into channels (project_id, id, scope, user_id)
values ($1, $2, $3, $4)
on conflict do nothing;

-- name: find_channels
-- The channels that one user can see: their own and the project's.
-- $1 project, $2 user, $3 scopes
select id::text, scope, seq, epoch, join_code
  from channels
 where project_id = $1
   and ((scope = 'user' and user_id = $2) or (scope = 'project' and user_id = ''))
   and scope = any($3::text[]);

-- name: find_stream_heads
-- The cursor is the seq from 60 s ago: whatever changed since then is sent again (realtime.md, Positions).
-- The user's latest log-out goes into the token: a later one ends it.
-- $1 project, $2 user, $3 scopes
select c.id::text, c.scope, c.seq, c.epoch, c.join_code,
       coalesce((select min(m.seq) - 1 from memories m
                  where m.project_id = c.project_id and m.channel_id = c.id
                    and m.updated_at > clock_timestamp() - interval '60 seconds'), c.seq) as cursor,
       (select o.ended_at from stream_logouts o where o.project_id = $1 and o.user_id = $2) as logged_out_at
  from channels c
 where c.project_id = $1
   and ((c.scope = 'user' and c.user_id = $2) or (c.scope = 'project' and c.user_id = ''))
   and c.scope = any($3::text[]);

-- name: list_snapshot
-- Heads and rows in one statement, so that both are of one snapshot; a channel without rows still gives its
-- head. One line per row, by createdAt and id, newest first, the columns of a memory before all others; the heads
-- come first.
-- $1 project, $2 user, $3 scopes, $4 include retired, $5 before created_at (or null), $6 before id, $7 limit
with heads as materialized (
    select id, scope, seq, epoch, join_code from channels
     where project_id = $1
       and ((scope = 'user' and user_id = $2) or (scope = 'project' and user_id = ''))
       and scope = any($3::text[])
), page as (
    select m.id::text, m.kind, m.scope, m.content, m.source_thread_ids, m.created_at, m.updated_at, m.retired_at,
           r.recalled_at
      from memories m
      left join memory_recalls r on r.project_id = m.project_id and r.memory_id = m.id
     where m.project_id = $1 and m.channel_id = any(array(select id from heads))
       and ($4 or m.retired_at is null) and m.purged_at is null
       and ($5::timestamptz is null or (m.created_at, m.id) < ($5, $6::uuid))
     order by m.created_at desc, m.id desc
     limit $7
)
select page.*, null::text as channel_id, null::text as channel_scope, null::bigint as seq, null::text as epoch,
       null::text as join_code, false as is_head
  from page
union all
select null, null, null, null, null, null, null, null, null, id::text, scope, seq, epoch, join_code, true from heads
 order by is_head desc, created_at desc nulls first, id desc;
