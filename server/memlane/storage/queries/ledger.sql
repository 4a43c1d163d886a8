-- name: ledger_heads
-- Where each channel's chain ends, in order of the channels' ids, page by page; of one that was never written to only
-- if it has rows all the same.
-- $1 project (null: all), $2 after channel (or null), $3 limit
select c.project_id::text, p.slug as project, c.id::text as channel_id, c.scope, c.user_id, c.seq, c.ledger_rows,
       c.ledger_sha256
  from channels c join projects p on p.id = c.project_id
 where ($1::uuid is null or c.project_id = $1) and ($2::uuid is null or c.id > $2)
   and (c.seq > 0
        or exists (select 1 from write_ledger l where l.project_id = c.project_id and l.channel_id = c.id))
 order by c.id
 limit $3;

-- name: ledger_page
-- A channel's rows in the order of their chain.
-- $1 project, $2 channel, $3 after seq, $4 up to seq, $5 limit
select project_id::text, channel_id::text, seq, memory_id::text, operation, absorbed_by, lane_id::text, lane_name,
       key_id::text, run, source_type, source_id, source_trust, triggered_by, request_id, written_at, before_sha256,
       after_sha256, chain_sha256
  from write_ledger
 where project_id = $1 and channel_id = $2 and seq > $3 and seq <= $4
 order by seq
 limit $5;

-- name: ledger_stray
-- A row that stands before a channel's first write or after its newest, both as they are at one moment.
-- $1 project, $2 channel
select min(l.seq)
  from channels c join write_ledger l on l.project_id = c.project_id and l.channel_id = c.id
 where c.project_id = $1 and c.id = $2 and (l.seq < 1 or l.seq > c.seq);

-- name: ledger_tail
-- A project's newest rows, newest first; of one lane, of one memory, or after an id.
-- $1 project, $2 lane (or null), $3 memory (or null), $4 after id (or null), $5 limit
select l.id, c.scope, c.user_id, l.seq, l.memory_id::text, l.operation, l.absorbed_by, l.lane_name as lane, k.short as key,
       l.run, l.source_type, l.source_id, l.source_trust, l.triggered_by, l.request_id, l.written_at,
       encode(l.before_sha256, 'hex') as before_sha256, encode(l.after_sha256, 'hex') as after_sha256
  from write_ledger l
  join channels c on c.project_id = l.project_id and c.id = l.channel_id
  left join runtime_keys k on k.project_id = l.project_id and k.id = l.key_id
 where l.project_id = $1 and ($2::text is null or l.lane_name = $2) and ($3::uuid is null or l.memory_id = $3)
   and ($4::bigint is null or l.id > $4)
 order by l.id desc
 limit $5;
