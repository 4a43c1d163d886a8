-- name: check_sessions
-- What decides whether stream sessions may go on: their key, lane, log-out, epoch and first use.
-- $1 projects, $2 session ids, $3 key short ids, $4 users, $5 join codes
select s.session_id, k.revoked_at as key_revoked_at, k.expires_at as key_expires_at, k.short is not null as key_known,
       l.mode as lane_mode, o.ended_at as logged_out_at, c.epoch, u.first_used_at, g.id::text as organization_id,
       g.slug as organization
  from unnest($1::uuid[], $2::text[], $3::text[], $4::text[], $5::text[])
       as s (project_id, session_id, key_short, user_id, join_code)
  left join runtime_keys k on k.short = s.key_short and k.project_id = s.project_id
  left join lanes l on l.project_id = k.project_id and l.id = k.lane_id
  left join stream_logouts o on o.project_id = s.project_id and o.user_id = s.user_id
  left join channels c on c.join_code = s.join_code and c.project_id = s.project_id
  left join stream_sessions u on u.project_id = s.project_id and u.session_id = s.session_id
  left join projects p on p.id = s.project_id
  left join organizations g on g.id = p.organization_id;

-- name: begin_session
-- The first use of a token; of two at once the earlier stands.
-- $1 project, $2 session id
insert into stream_sessions (project_id, session_id, first_used_at) values ($1, $2, clock_timestamp())
on conflict do nothing;

-- name: find_stream_channel
-- The channel of a topic, if it is one of this user's own, with its head and its cursor: the seq that it had
-- at a time. Whatever changed since then is sent again (realtime.md, Positions).
-- $1 project, $2 scope, $3 user ('' in the project scope), $4 join code, $5 time
select c.id::text, c.scope, c.seq, c.epoch, c.join_code,
       coalesce((select min(m.seq) - 1 from memories m
                  where m.project_id = c.project_id and m.channel_id = c.id and m.updated_at > $5), c.seq) as cursor
  from channels c
 where c.project_id = $1 and c.scope = $2 and c.user_id = $3 and c.join_code = $4;

-- name: find_changes
-- What changed since a position, in order, and the head of the same snapshot. A changed row shows its present
-- state. The row of the head comes first and has no id.
-- $1 project, $2 channel, $3 since, $4 limit
with head as (
    select seq, epoch from channels where project_id = $1 and id = $2
), page as (
    select m.id::text, m.kind, m.scope, m.content, m.source_thread_ids, m.created_at, m.updated_at, m.retired_at,
           r.recalled_at, m.seq
      from memories m
      left join memory_recalls r on r.project_id = m.project_id and r.memory_id = m.id
     where m.project_id = $1 and m.channel_id = $2 and m.seq > $3
     order by m.seq
     limit $4
)
select page.*, null::text as epoch from page
union all
select null, null, null, null, null, null, null, null, null, seq, epoch from head
 order by epoch nulls last, seq;

-- name: count_changes
-- Counts no further than the limit.
-- $1 project, $2 channel, $3 since, $4 limit
select count(*) from (select 1 from memories where project_id = $1 and channel_id = $2 and seq > $3 limit $4) counted;

-- name: find_visible_since
-- The rows that a list shows.
-- $1 project, $2 channel, $3 list limit
select id::text from memories
 where project_id = $1 and channel_id = $2 and retired_at is null
 order by created_at desc, id desc
 limit $3;

-- name: find_heads
-- The heads of channels by id.
-- $1 projects, $2 channels
select c.id::text, c.seq, c.epoch
  from unnest($1::uuid[], $2::uuid[]) as w (project_id, id)
  join channels c on c.project_id = w.project_id and c.id = w.id;

-- name: drop_old_sessions
-- $1 hours
delete from stream_sessions
 where ctid = any(array(select ctid from stream_sessions
                         where first_used_at < clock_timestamp() - make_interval(hours => $1) limit 1000));
