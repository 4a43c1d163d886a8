-- name: export_snapshot
-- What pg_dump is told to read, so that the counts are of the same moment.
select pg_export_snapshot();

-- name: count_everything
select (select count(*) from organizations) as organizations,
       (select count(*) from projects) as projects,
       (select count(*) from runtime_keys) as runtime_keys,
       (select count(*) from channels) as channels,
       (select count(*) from memories where retired_at is null) as live_memories,
       (select count(*) from memories where retired_at is not null) as retired_memories,
       (select count(*) from memory_revisions) as revisions,
       (select count(*) from write_ledger) as ledger_rows;

-- name: find_house
-- Whether a database has anything of ours.
select to_regclass('memories') is not null or to_regclass('schema_migrations') is not null;

-- name: renew_epochs
-- A restored channel has another history: every stream must read it anew (realtime.md, Positions).
update channels set epoch = replace(gen_random_uuid()::text, '-', '');

-- name: sample_memories
-- Live memories to ask for, of as many channels as there are.
-- $1 how many
select project_id::text, channel_id::text, scope, user_id, space_id, id::text
  from (select m.project_id, m.channel_id, m.scope, c.user_id, m.space_id, m.id,
               row_number() over (partition by m.channel_id, m.space_id order by md5(m.id::text)) as place
          from memories m
          join channels c on c.project_id = m.project_id and c.id = m.channel_id
         where m.retired_at is null) numbered
 order by place, md5(id::text)
 limit $1;

-- name: scan_channel
-- Every live vector of a channel in one space, read from the table itself.
-- $1 project, $2 channel, $3 space
select id::text, embedding::real[] as embedding
  from memories
 where project_id = $1 and channel_id = $2 and space_id = $3 and retired_at is null;
