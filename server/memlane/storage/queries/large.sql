-- Statements of project channels that are too large to be read whole. An index over vectors belongs to one embedding
-- space, so `space_id = 0` and `halfvec(384)` stand for the space's own numbers, which are put in by
-- memlane.storage.statements.statement_for_space. As they stand they paste into psql.

-- name: find_statistics
-- Of a project's channel, a row for each of its spaces that has an index.
-- $1 project, $2 least live rows
select s.channel_id::text, s.space_id, p.dimensions, s.live, s.centre, s.terms, s.counts,
       s.rows
  from channel_statistics s
  join channels c on c.project_id = s.project_id and c.id = s.channel_id and c.scope = 'project'
  join embedding_spaces p on p.id = s.space_id
  join pg_index i on i.indexrelid = to_regclass('memories_near_' || s.space_id) and i.indisvalid
 where s.project_id = $1 and s.live >= $2
 order by s.space_id;

-- name: widen_near_scan
-- For one transaction: how far the index is searched, and that a filter makes it go on.
-- $1 ef_search
select set_config('hnsw.ef_search', $1, true), set_config('hnsw.iterative_scan', 'relaxed_order', true),
       set_config('hnsw.max_scan_tuples', '40000', true);

-- name: recall_large
-- As recall, over candidates: the nearest by the index, and the rows that have one of the selective terms. Each is
-- scored exactly. The counts of frequent terms are known; those of the others are counted here.
-- $1 project, $2 channel, $3 centred query embedding (or null), $4 the shrunk centre, $5 selective terms, $6 all terms,
-- $7 their counts (null: unknown), $8 weight of the dense side, $9 weight of the lexical side, $10 weight of both,
-- $11 kind (or null), $12 least score, $13 limit, $14 nearest, $15 live rows, $16 share of an unseen term,
-- $17 most candidates by words
with near as materialized (
    select m.id
      from memories m
     where m.project_id = $1 and m.channel_id = $2 and m.scope = 'project' and m.space_id = 0
       and m.retired_at is null and ($11::text is null or m.kind = $11) and $3::real[] is not null
     order by m.embedding::halfvec(384) <=> $3::real[]::halfvec(384)
     limit $14
), hits as materialized (
    select m.id, m.terms
      from memories m
     where m.scope = 'project' and m.retired_at is null and m.terms && $5::text[]
       and m.project_id = $1 and m.channel_id = $2 and ($11::text is null or m.kind = $11)
), counted as materialized (
    select q.term, coalesce(q.known, (select count(*) from hits h where q.term = any(h.terms))) as df
      from unnest($6::text[], $7::bigint[]) as q (term, known)
), weights as materialized (
    select term, ln(1 + (greatest($15::float8 - df, 0) + 0.5) / (df + 0.5))
                 * case when df = 0 then $16::float8 else 1 end as idf
      from counted
), covered as (
    -- Of many rows that share a word with the query only those with the most of its weight are compared by vector.
    select h.id, sum(w.idf) as shared
      from hits h join weights w on w.term = any(h.terms)
     group by h.id
     order by shared desc, h.id
     limit $17
), ranked as materialized (
    select m.id,
           case when m.space_id = 0 and $3::real[] is not null
                then greatest(0, coalesce(1 - ((m.embedding - $4::real[]::halfvec) <=> $3::real[]::halfvec), 0))
                else 0 end as near,
           coalesce((select sum(w.idf) from weights w where w.term = any(m.terms))
                    / nullif((select sum(idf) from weights), 0), 0) as coverage
      from (select id from near union select id from covered) candidates
      join memories m on m.project_id = $1 and m.id = candidates.id
     where m.retired_at is null and ($11::text is null or m.kind = $11)
), best as (
    select id, score
      from (select id, least(1, $8::float8 * near + $9::float8 * coverage
                                + $10::float8 * sqrt(near * coverage)) as score from ranked) fused
     where score > 0 and score >= $12::float8
     order by score desc, id limit $13
)
select m.id::text, m.kind, m.scope, m.content, m.source_thread_ids, m.created_at, m.updated_at, m.retired_at,
       r.recalled_at, best.score
  from best
  join memories m on m.project_id = $1 and m.id = best.id
  left join memory_recalls r on r.project_id = $1 and r.memory_id = best.id
 order by best.score desc, best.id;

-- name: find_similar_large
-- The nearest live neighbours by the index.
-- $1 project, $2 channel, $3 kind, $4 embedding, $5 least cosine, $6 excluded id, $7 limit
select id::text, score
  from (select m.id, (1 - (m.embedding::halfvec(384) <=> $4::real[]::halfvec(384)))::float8 as score
          from memories m
         where m.project_id = $1 and m.channel_id = $2 and m.scope = 'project' and m.space_id = 0
           and m.retired_at is null and m.kind = $3 and ($6::uuid is null or m.id <> $6)
         order by m.embedding::halfvec(384) <=> $4::real[]::halfvec(384)
         limit $7) near
 where score >= $5
 order by score desc, id;

-- name: find_due_statistics
-- Project channels that may be large and whose statistics are missing or older than a tenth of their changes.
-- $1 least seq, $2 limit
select c.project_id::text, c.id::text as channel_id, c.seq
  from channels c
  left join lateral (select max(seq) as seq, max(live) as live from channel_statistics
                      where project_id = c.project_id and channel_id = c.id) s on true
 where c.scope = 'project' and c.seq >= $1 and (s.seq is null or c.seq > s.seq + s.live / 10 + 100)
 order by random()
 limit $2;

-- name: find_counted_channels
-- Channels that have statistics.
select distinct c.project_id::text, c.id::text as channel_id, c.seq
  from channel_statistics s
  join channels c on c.project_id = s.project_id and c.id = s.channel_id;

-- name: page_statistics
-- One page of a channel's live rows in order of id, summed up by space.
-- $1 project, $2 channel, $3 after id (or null), $4 limit
with page as materialized (
    select m.id, m.space_id, m.embedding
      from memories m
     where m.project_id = $1 and m.channel_id = $2 and m.retired_at is null and ($3::uuid is null or m.id > $3)
     order by m.id limit $4
)
select space_id, count(*) as rows, sum(embedding::vector)::real[] as total, max(id::text) as last
  from page group by space_id;

-- name: page_terms
-- The terms of the same page.
-- $1 project, $2 channel, $3 after id (or null), $4 limit
with page as materialized (
    select m.terms
      from memories m
     where m.project_id = $1 and m.channel_id = $2 and m.retired_at is null and ($3::uuid is null or m.id > $3)
     order by m.id limit $4
)
select t.term, count(*) as rows from page cross join unnest(page.terms) as t (term) group by t.term;

-- name: keep_statistics
-- $1 project, $2 channel, $3 space, $4 live rows of every space, $5 centre, $6 terms, $7 counts, $8 seq,
-- $9 live rows of this space
insert into channel_statistics (project_id, channel_id, space_id, live, centre, terms, counts, seq, rows)
values ($1, $2, $3, $4, $5, $6, $7, $8, $9)
on conflict (project_id, channel_id, space_id) do update
   set live = excluded.live, centre = excluded.centre, terms = excluded.terms, counts = excluded.counts,
       seq = excluded.seq, rows = excluded.rows, computed_at = clock_timestamp();

-- name: drop_statistics
-- Of the spaces in which the channel has no row any more.
-- $1 project, $2 channel, $3 spaces that it has rows in
delete from channel_statistics where project_id = $1 and channel_id = $2 and space_id <> all($3::integer[]);

-- name: find_near_index
-- pgvector's version, and whether the index is there (null) and sound.
-- $1 the index's name
select v.extversion as version,
       (select i.indisvalid from pg_index i where i.indexrelid = to_regclass($1)) as valid
  from pg_extension v where v.extname = 'vector';

-- name: create_near_index
-- Outside any transaction; it does not hold up writes. With pgvector's own 16 and 64 one of two indexes over 200,000
-- rows in tight clusters found less than .98 of the exact ten.
create index concurrently if not exists memories_near_0 on memories
 using hnsw ((embedding::halfvec(384)) halfvec_cosine_ops) with (m = 24, ef_construction = 128)
 where space_id = 0 and scope = 'project' and retired_at is null;

-- name: drop_near_index
-- One that a broken build left behind.
drop index concurrently if exists memories_near_0;
