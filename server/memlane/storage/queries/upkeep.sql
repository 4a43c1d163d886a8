-- Work on rows in the background. None of it changes what a reader sees, so none takes a seq or a ledger row; a row
-- that was written meanwhile (its seq moved) is left for the next round.

-- name: find_stale_rows
-- Rows whose absorb key or terms are of another version, with when and where their wording was written.
-- $1 canonical version, $2 terms version, $3 limit
select m.project_id::text, m.id::text, m.channel_id::text, m.scope, m.content, m.seq, c.user_id,
       coalesce((select max(l.written_at) from write_ledger l
                  where l.project_id = m.project_id and l.memory_id = m.id
                    and l.operation in ('created', 'absorbed')), m.created_at) as worded_at
  from memories m
  join channels c on c.project_id = m.project_id and c.id = m.channel_id
 where m.canonical_version < $1 or (m.canonical_version = $1 and m.terms_version < $2)
 limit $3;

-- name: rekey_row
-- Of two live rows that the newer form finds to say the same, both stay, and the first one has the key.
-- $1 project, $2 id, $3 seq, $4 absorb key, $5 canonical version, $6 terms, $7 terms version
update memories m
   set absorb_key = case when m.retired_at is null and exists (
                             select 1 from memories t
                              where t.project_id = m.project_id and t.channel_id = m.channel_id and t.kind = m.kind
                                and t.absorb_key = $4 and t.retired_at is null and t.id <> m.id)
                         then null else $4 end,
       canonical_version = $5, terms = $6::text[], terms_version = $7
 where m.project_id = $1 and m.id = $2 and m.seq = $3;

-- name: list_spaces
-- Every embedding space with its rows and whether it has an index for large channels.
-- $1 pattern of the index's name
select s.id, s.provider, s.model, s.dimensions, s.fingerprint, s.activated_at,
       (select count(*) from memories m where m.space_id = s.id) as rows,
       to_regclass(replace($1, '%', s.id::text)) is not null as indexed
  from embedding_spaces s
 order by s.id;

-- name: activate_space
-- $1 space
update embedding_spaces
   set activated_at = case when id = $1 then coalesce(activated_at, clock_timestamp()) end
 where id = $1 or activated_at is not null;

-- name: count_foreign_rows
-- Rows that are not of the space yet; a purged one has no vector and stays where it is.
-- $1 space
select count(*) from memories where space_id <> $1 and purged_at is null;

-- name: count_project_rows
-- Rows of the project scope, counted no further than the limit.
-- $1 limit
select count(*) from (select 1 from memories where scope = 'project' limit $1) counted;

-- name: find_foreign_rows
-- In the order of an index, space by space.
-- $1 space, $2 limit
select m.project_id::text, m.id::text, m.content, m.seq
  from embedding_spaces s
 cross join lateral (select project_id, id, content, seq from memories
                      where space_id = s.id and purged_at is null order by project_id, id limit $2) m
 where s.id <> $1
 limit $2;

-- name: move_to_space
-- $1 projects, $2 ids, $3 seqs, $4 space, $5 embeddings as text
update memories m
   set space_id = $4, embedding = w.embedding::halfvec
  from unnest($1::uuid[], $2::uuid[], $3::bigint[], $5::text[]) as w (project_id, id, seq, embedding)
 where m.project_id = w.project_id and m.id = w.id and m.seq = w.seq;
