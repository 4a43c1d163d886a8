-- Every statement here runs under the channel's lock, in the write's own transaction, and stamps the
-- next seq: the counter lives on the locked row, so the order of commits is the order of seq.

-- name: find_twin
-- A statement of its own after the lock: within one statement it would miss a twin just committed.
-- $1 project, $2 channel, $3 kind, $4 absorb key, $5 id that is no candidate (or null)
select m.id::text, m.kind, m.scope, m.content, m.source_thread_ids, m.created_at, m.updated_at, m.retired_at,
       r.recalled_at, m.seq, m.wording_salt
  from memories m
  left join memory_recalls r on r.project_id = m.project_id and r.memory_id = m.id
 where m.project_id = $1 and m.channel_id = $2 and m.kind = $3 and m.absorb_key = $4
   and m.retired_at is null and ($5::uuid is null or m.id <> $5);

-- name: find_in_channel
-- $1 project, $2 channel, $3 id
select m.id::text, m.kind, m.scope, m.content, m.source_thread_ids, m.created_at, m.updated_at, m.retired_at,
       r.recalled_at, m.seq, m.absorb_key, m.wording_salt
  from memories m
  left join memory_recalls r on r.project_id = m.project_id and r.memory_id = m.id
 where m.project_id = $1 and m.channel_id = $2 and m.id = $3 and m.purged_at is null;

-- name: find_salt
-- $1 project, $2 memory
select wording_salt from memories where project_id = $1 and id = $2;

-- name: insert_memory
-- $1 project, $2 channel, $3 id, $4 scope, $5 kind, $6 content, $7 threads, $8 absorb key, $9 canonical
-- version, $10 terms, $11 terms version, $12 space, $13 embedding, $14 created at (null: now),
-- $15..$27 the ledger's columns, $28 the salt of its wordings' hashes
with head as (
    update channels
       set seq = seq + 1, live_rows = live_rows + 1, ledger_rows = ledger_rows + 1, ledger_sha256 = $27
     where project_id = $1 and id = $2
    returning seq, clock_timestamp() as now
), written as (
    insert into memories (project_id, channel_id, id, scope, kind, content, source_thread_ids, created_at,
                          updated_at, seq, absorb_key, canonical_version, terms, terms_version, space_id, embedding,
                          wording_salt)
    select $1, $2, $3, $4, $5, $6, $7::text[], coalesce($14::timestamptz, now), now, seq, $8, $9, $10::text[], $11,
           $12, $13::real[]::halfvec, $28
      from head
    returning id::text, kind, scope, content, source_thread_ids, created_at, updated_at, retired_at, seq, wording_salt
), recorded as (
    insert into write_ledger (project_id, channel_id, seq, memory_id, operation, absorbed_by, lane_id, lane_name,
                              key_id, run, source_type, source_id, source_trust, triggered_by, request_id,
                              before_sha256, after_sha256, written_at, chain_sha256)
    select $1, $2, seq, $3, 'created', null, $15, $16, $17, $18, $19, $20, $21, $22, $23, $24, $25, $26, $27
      from head
)
select *, null::timestamptz as recalled_at from written;

-- name: absorb_memory
-- The live row takes the newer wording; the earlier wording stays as a revision unless it is the same.
-- $1 project, $2 channel, $3 id, $4 content, $5 threads, $6 absorb key, $7 canonical version, $8 terms,
-- $9 terms version, $10 space, $11 embedding, $12 absorbed by, $13..$25 the ledger's columns
with head as (
    update channels set seq = seq + 1, ledger_rows = ledger_rows + 1, ledger_sha256 = $25
     where project_id = $1 and id = $2
    returning seq, clock_timestamp() as now
), kept as (
    insert into memory_revisions (project_id, memory_id, seq, content, source_thread_ids, written_at, replaced_at)
    select m.project_id, m.id, m.seq, m.content, m.source_thread_ids, m.updated_at, head.now
      from memories m, head
     where m.project_id = $1 and m.id = $3 and m.content <> $4
), written as (
    update memories m
       set content = $4, source_thread_ids = $5::text[], updated_at = head.now, seq = head.seq, absorb_key = $6,
           canonical_version = $7, terms = $8::text[], terms_version = $9, space_id = $10,
           embedding = $11::real[]::halfvec
      from head
     where m.project_id = $1 and m.channel_id = $2 and m.id = $3
    returning m.id::text, m.kind, m.scope, m.content, m.source_thread_ids, m.created_at, m.updated_at,
              m.retired_at, m.seq
), recorded as (
    insert into write_ledger (project_id, channel_id, seq, memory_id, operation, absorbed_by, lane_id, lane_name,
                              key_id, run, source_type, source_id, source_trust, triggered_by, request_id,
                              before_sha256, after_sha256, written_at, chain_sha256)
    select $1, $2, seq, $3, 'absorbed', $12, $13, $14, $15, $16, $17, $18, $19, $20, $21, $22, $23, $24, $25
      from head
)
select written.*, r.recalled_at
  from written left join memory_recalls r on r.project_id = $1 and r.memory_id = $3;

-- name: retire_memory
-- $1 project, $2 channel, $3 id, $4 superseded by (or null), $5 operation, $6..$18 the ledger's columns
with head as (
    update channels
       set seq = seq + 1, live_rows = live_rows - 1, ledger_rows = ledger_rows + 1, ledger_sha256 = $18
     where project_id = $1 and id = $2
    returning seq, clock_timestamp() as now
), written as (
    update memories m
       set retired_at = head.now, updated_at = head.now, seq = head.seq, superseded_by = $4
      from head
     where m.project_id = $1 and m.channel_id = $2 and m.id = $3 and m.retired_at is null
    returning m.id::text, m.kind, m.scope, m.content, m.source_thread_ids, m.created_at, m.updated_at,
              m.retired_at, m.seq
), recorded as (
    insert into write_ledger (project_id, channel_id, seq, memory_id, operation, lane_id, lane_name, key_id, run,
                              source_type, source_id, source_trust, triggered_by, request_id, before_sha256,
                              after_sha256, written_at, chain_sha256)
    select $1, $2, seq, $3, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, $16, $17, $18 from head
)
select written.*, r.recalled_at
  from written left join memory_recalls r on r.project_id = $1 and r.memory_id = $3;

-- name: restore_memory
-- $1 project, $2 channel, $3 id, $4..$16 the ledger's columns
with head as (
    update channels
       set seq = seq + 1, live_rows = live_rows + 1, ledger_rows = ledger_rows + 1, ledger_sha256 = $16
     where project_id = $1 and id = $2
    returning seq, clock_timestamp() as now
), written as (
    update memories m
       set retired_at = null, superseded_by = null, updated_at = head.now, seq = head.seq
      from head
     where m.project_id = $1 and m.channel_id = $2 and m.id = $3 and m.retired_at is not null
    returning m.id::text, m.kind, m.scope, m.content, m.source_thread_ids, m.created_at, m.updated_at,
              m.retired_at, m.seq
), recorded as (
    insert into write_ledger (project_id, channel_id, seq, memory_id, operation, lane_id, lane_name, key_id, run,
                              source_type, source_id, source_trust, triggered_by, request_id, before_sha256,
                              after_sha256, written_at, chain_sha256)
    select $1, $2, seq, $3, 'restored', $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, $16 from head
)
select written.*, r.recalled_at
  from written left join memory_recalls r on r.project_id = $1 and r.memory_id = $3;

-- name: keep_absorb_key
-- Only of a retired row: no reader sees a change, so it takes no seq and no ledger row.
-- $1 project, $2 channel, $3 id, $4 absorb key
update memories set absorb_key = $4
 where project_id = $1 and channel_id = $2 and id = $3 and retired_at is not null;

-- name: find_answer
-- $1 project, $2 user, $3 key
select request_sha256, answer::text
  from idempotency_keys
 where project_id = $1 and user_id = $2 and key = $3 and created_at > clock_timestamp() - interval '24 hours';

-- name: keep_answer
-- A key older than 24 hours may be used anew; a younger one is never overwritten (no row comes back).
-- $1 project, $2 user, $3 key, $4 request hash, $5 memory, $6 answer
insert into idempotency_keys (project_id, user_id, key, request_sha256, memory_id, answer)
values ($1, $2, $3, $4, $5, $6::jsonb)
on conflict (project_id, user_id, key) do update
   set request_sha256 = excluded.request_sha256, memory_id = excluded.memory_id, answer = excluded.answer,
       created_at = clock_timestamp()
 where idempotency_keys.created_at <= clock_timestamp() - interval '24 hours'
returning key;
