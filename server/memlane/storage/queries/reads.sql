-- name: find_memory
-- A row that this user can see, live or retired.
-- $1 project, $2 user, $3 scopes, $4 id
select m.id::text, m.kind, m.scope, m.content, m.source_thread_ids, m.created_at, m.updated_at, m.retired_at,
       r.recalled_at, m.seq
  from memories m
  join channels c on c.project_id = m.project_id and c.id = m.channel_id
  left join memory_recalls r on r.project_id = m.project_id and r.memory_id = m.id
 where m.project_id = $1 and m.id = $4 and m.purged_at is null and c.scope = any($3::text[])
   and ((c.scope = 'user' and c.user_id = $2) or (c.scope = 'project' and c.user_id = ''));

-- name: find_similar
-- The nearest live neighbours of one kind, by plain cosine, exactly.
-- $1 project, $2 scope, $3 user, $4 kind, $5 space, $6 embedding, $7 least cosine, $8 excluded id, $9 limit
select id::text, score
  from (select m.id, (1 - (m.embedding <=> $6::real[]::halfvec))::float8 as score
          from channels c
          join memories m on m.project_id = c.project_id and m.channel_id = c.id
         where c.project_id = $1 and c.scope = $2 and c.user_id = $3
           and m.retired_at is null and m.kind = $4 and m.space_id = $5
           and ($8::uuid is null or m.id <> $8)) near
 where score >= $7
 order by score desc, id
 limit $9;

-- name: find_wordings
-- Live rows with the wordings that each absorbed, newest first.
-- $1 project, $2 ids
select m.id::text, m.seq, m.content, m.absorb_key,
       array(select r.content from memory_revisions r
              where r.project_id = $1 and r.memory_id = m.id order by r.seq desc) as absorbed
  from memories m
 where m.project_id = $1 and m.id = any($2::uuid[]) and m.retired_at is null;

-- name: find_provenance
-- The history of a memory that this user can see, newest first; of a purged one too.
-- $1 project, $2 user, $3 scopes, $4 memory, $5 limit
select l.operation, l.absorbed_by, l.lane_name as lane, l.key_id::text, l.run, l.source_type, l.source_id, l.source_trust,
       l.triggered_by, l.request_id, l.written_at, l.seq, encode(l.before_sha256, 'hex') as before_sha256,
       encode(l.after_sha256, 'hex') as after_sha256
  from write_ledger l
  join channels c on c.project_id = l.project_id and c.id = l.channel_id
 where l.project_id = $1 and l.memory_id = $4 and c.scope = any($3::text[])
   and ((c.scope = 'user' and c.user_id = $2) or (c.scope = 'project' and c.user_id = ''))
 order by l.seq desc
 limit $5;

-- name: keep_recalls
-- Sorted by the caller, so that two batches never wait for each other in a circle.
-- $1 projects, $2 memories, $3 times, $4 counts
insert into memory_recalls (project_id, memory_id, recalled_at, recall_count)
select * from unnest($1::uuid[], $2::uuid[], $3::timestamptz[], $4::bigint[])
on conflict (project_id, memory_id) do update
   set recalled_at = greatest(memory_recalls.recalled_at, excluded.recalled_at),
       recall_count = memory_recalls.recall_count + excluded.recall_count;

-- name: present_ids
-- $1 project, $2 ids
select id::text from memories where project_id = $1 and id = any($2::uuid[]);

-- name: count_memories
-- $1 project
select count(*) from memories where project_id = $1 and purged_at is null;

-- name: export_page
-- $1 project, $2 after id (or null), $3 limit
select m.id::text, m.kind, m.scope, m.content, m.source_thread_ids, m.created_at, m.updated_at, m.retired_at,
       null::timestamptz as recalled_at, c.user_id
  from memories m
  join channels c on c.project_id = m.project_id and c.id = m.channel_id
 where m.project_id = $1 and ($2::uuid is null or m.id > $2) and m.purged_at is null
 order by m.id
 limit $3;

-- name: count_user_memories
-- $1 project, $2 user
select count(*)
  from memories m join channels c on c.project_id = m.project_id and c.id = m.channel_id
 where m.project_id = $1 and c.scope = 'user' and c.user_id = $2 and m.purged_at is null;

-- name: export_user_page
-- All that is kept of a user's memories: every wording, every write, every recall.
-- $1 project, $2 user, $3 after id (or null), $4 limit
select m.id::text, m.kind, m.scope, m.content, m.source_thread_ids, m.created_at, m.updated_at, m.retired_at,
       m.superseded_by::text, r.recalled_at, coalesce(r.recall_count, 0) as recall_count,
       coalesce((select jsonb_agg(jsonb_build_object('content', v.content, 'sourceThreadIds', v.source_thread_ids,
                                                     'writtenAt', v.written_at, 'replacedAt', v.replaced_at)
                                  order by v.seq)
                   from memory_revisions v where v.project_id = m.project_id and v.memory_id = m.id), '[]')::text
           as revisions,
       coalesce((select jsonb_agg(jsonb_build_object('operation', l.operation, 'lane', l.lane_name, 'run', l.run,
                                                     'sourceType', l.source_type, 'sourceId', l.source_id,
                                                     'sourceTrust', l.source_trust, 'triggeredBy', l.triggered_by,
                                                     'writtenAt', l.written_at)
                                  order by l.seq)
                   from write_ledger l where l.project_id = m.project_id and l.memory_id = m.id), '[]')::text as writes
  from memories m
  join channels c on c.project_id = m.project_id and c.id = m.channel_id
  left join memory_recalls r on r.project_id = m.project_id and r.memory_id = m.id
 where m.project_id = $1 and c.scope = 'user' and c.user_id = $2 and m.purged_at is null
   and ($3::uuid is null or m.id > $3)
 order by m.id
 limit $4;
