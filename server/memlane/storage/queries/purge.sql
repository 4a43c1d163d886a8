-- Erasure. Rows stay as tombstones without wording, so that every stream learns that they are gone.

-- name: purge_channels
-- A user's channel, or all of a project, page by page.
-- $1 project, $2 user (null: all channels), $3 memory (or null: its channel), $4 after channel (or null), $5 limit
select c.id::text, c.seq
  from channels c
 where c.project_id = $1 and ($2::text is null or (c.scope = 'user' and c.user_id = $2))
   and ($3::uuid is null or c.id = (select m.channel_id from memories m where m.project_id = $1 and m.id = $3))
   and ($4::uuid is null or c.id > $4)
 order by c.id
 limit $5;

-- name: purge_survey
-- What a channel holds.
-- $1 project, $2 channel, $3 memory (or null: all)
with mine as materialized (
    select id, retired_at, purged_at from memories
     where project_id = $1 and channel_id = $2 and ($3::uuid is null or id = $3)
)
select count(*) filter (where purged_at is null) as memories,
       count(*) filter (where purged_at is null and retired_at is null) as live,
       count(*) filter (where purged_at is not null) as tombstones,
       (select count(*) from memory_revisions r join mine on mine.id = r.memory_id where r.project_id = $1) as revisions,
       (select count(*) from memory_recalls r join mine on mine.id = r.memory_id where r.project_id = $1) as recall_marks
  from mine;

-- name: count_answers
-- $1 project, $2 user (or null), $3 memory (or null)
select count(*) from idempotency_keys
 where project_id = $1 and ($2::text is null or user_id = $2) and ($3::uuid is null or memory_id = $3);

-- name: lock_channel_by_id
-- $1 project, $2 channel
select seq, ledger_sha256, clock_timestamp() as now from channels where project_id = $1 and id = $2 for no key update;

-- name: purge_page
-- The next rows to erase, in order of seq.
-- $1 project, $2 channel, $3 after seq, $4 up to seq, $5 memory (or null: all), $6 limit
select id::text, ctid, seq, retired_at is null as live,
       sha256(coalesce(wording_salt, ''::bytea) || convert_to(content, 'UTF8')) as before_sha256
  from memories
 where project_id = $1 and channel_id = $2 and seq > $3 and seq <= $4 and purged_at is null
   and ($5::uuid is null or id = $5)
 order by seq
 limit $6;

-- name: purge_batch
-- All of a batch in one call, so that the lock is not held for round trips. Memories are found by their places, and the
-- channel is compared as text, which is in no index: a plan by channel would read the whole channel for each batch.
-- $1 project, $2 channel, $3 ids, $4 new seqs, $5 hashes before, $6 chain hashes, $7 places, $8 time, $9 lane, $10 its
-- name, $11 key, $12 run, $13 source type, $14 source id, $15 trust, $16 triggered by, $17 request, $18 rows that were live
with gone as materialized (
    select * from unnest($3::uuid[], $4::bigint[], $5::bytea[], $6::bytea[]) as n (id, seq, before, chain)
), emptied as (
    update memories m
       set content = '', source_thread_ids = '{}', absorb_key = null, terms = '{}', embedding = null,
           wording_salt = null, retired_at = coalesce(m.retired_at, $8), purged_at = $8, updated_at = $8, seq = gone.seq
      from gone
     where m.ctid = any($7::tid[]) and m.id = gone.id and m.channel_id::text = $2::uuid::text
    returning m.id
), recorded as (
    insert into write_ledger (project_id, channel_id, seq, memory_id, operation, lane_id, lane_name, key_id, run,
                              source_type, source_id, source_trust, triggered_by, request_id, written_at, before_sha256,
                              chain_sha256)
    select $1, $2::uuid, seq, id, 'purged', $9, $10, $11, $12, $13, $14, $15, $16, $17, $8, before, chain from gone
), counted as (
    update channels
       set seq = ($4::bigint[])[cardinality($4::bigint[])], live_rows = live_rows - $18, ledger_rows = ledger_rows + cardinality($4::bigint[]),
           ledger_sha256 = ($6::bytea[])[cardinality($4::bigint[])]
     where project_id = $1 and id = $2
), revisions as (
    delete from memory_revisions where project_id = $1 and memory_id = any($3::uuid[]) returning 1
), recalls as (
    delete from memory_recalls where project_id = $1 and memory_id = any($3::uuid[]) returning 1
), statistics as (
    -- They name the channel's frequent words; the worker counts them anew.
    delete from channel_statistics where project_id = $1 and channel_id = $2::uuid
)
select (select count(*) from emptied) as memories, (select count(*) from revisions) as revisions,
       (select count(*) from recalls) as recall_marks;

-- name: purge_answers
-- Kept answers hold wordings. In small batches, so that no lock is held for long.
-- $1 project, $2 user (or null), $3 memory (or null)
delete from idempotency_keys
 where ctid = any(array(select ctid from idempotency_keys
                         where project_id = $1 and ($2::text is null or user_id = $2)
                           and ($3::uuid is null or memory_id = $3)
                         limit 500));

-- name: next_transaction
-- The number of a transaction that began after every commit of the purge.
select pg_current_xact_id()::xid::text;

-- name: count_older_snapshots
-- Who may still read row versions that were replaced before a transaction, and so keeps a VACUUM from freeing them:
-- open transactions of this database (a standby's too), prepared ones, replication slots.
-- $1 the transaction's number
select (select count(*) from pg_stat_activity
         where greatest(age(backend_xmin), age(backend_xid)) >= age($1::text::xid) and pid <> pg_backend_pid()
           -- Of other roles' sessions a plain role sees no more than this. An autovacuum worker has no user, and its
           -- snapshot holds nothing back; a standby's sender has no database.
           and (datname is null or (datname = current_database() and usesysid is not null)))
     + (select count(*) from pg_prepared_xacts
         where age(transaction) >= age($1::text::xid) and database = current_database())
     + (select count(*) from pg_replication_slots where age(xmin) >= age($1::text::xid));

-- name: has_memory_revisions
select exists (select from memory_revisions);

-- name: put_sample_memory_revisions
insert into memory_revisions (project_id, memory_id, seq, content, source_thread_ids, written_at, replaced_at)
values ('00000000-0000-0000-0000-000000000000', '00000000-0000-0000-0000-000000000000', 0, '', '{}', now(), now());

-- name: drop_sample_memory_revisions
delete from memory_revisions where project_id = '00000000-0000-0000-0000-000000000000';

-- name: has_idempotency_keys
select exists (select from idempotency_keys);

-- name: put_sample_idempotency_keys
insert into idempotency_keys (project_id, user_id, key, request_sha256, memory_id, answer)
values ('00000000-0000-0000-0000-000000000000', '', '', '', '00000000-0000-0000-0000-000000000000', 'null');

-- name: drop_sample_idempotency_keys
delete from idempotency_keys where project_id = '00000000-0000-0000-0000-000000000000';

-- name: has_channel_statistics
select exists (select from channel_statistics);

-- name: put_sample_channel_statistics
insert into channel_statistics (project_id, channel_id, space_id, live, rows, centre, terms, counts, seq)
select '00000000-0000-0000-0000-000000000000', '00000000-0000-0000-0000-000000000000', id, 0, 0, '{}', '{}', '{}', 0
  from embedding_spaces order by id limit 1;

-- name: drop_sample_channel_statistics
delete from channel_statistics where project_id = '00000000-0000-0000-0000-000000000000';
