-- name: recall
-- One round trip: exact centred cosine and idf-coverage over the live rows that the caller can see, fused
-- into one score in 0..1. memlane.domain.scoring holds the formula and the numbers' sources.
-- $1 project, $2 user, $3 scopes, $4 space, $5 query embedding (or null), $6 query terms, $7 weight of the
-- dense side, $8 weight of the lexical side, $9 centring prior, $10 kind (or null), $11 least score, $12 limit
with pool as materialized (
    select m.id, m.kind, m.terms, m.space_id, m.embedding
      from channels c
      join memories m on m.project_id = c.project_id and m.channel_id = c.id
     where c.project_id = $1 and c.scope = any($3::text[])
       and ((c.scope = 'user' and c.user_id = $2) or (c.scope = 'project' and c.user_id = ''))
       and m.retired_at is null
), size as (
    select count(*)::float8 as n from pool
), mean as materialized (
    -- The shrunk centre of the searched rows is `shift` times a direction of length 1, and the dot products
    -- that need no row. Measured on 2,000 rows: 3 ms with a sum of single floats, 8 ms with avg(halfvec).
    select direction, shift, shift * qd as shift_qd, shift * shift * dd as shift2_dd,
           greatest(qq - 2 * shift * qd + shift * shift * dd, 0) as query_norm2
      from (select direction, shift, -(direction <#> $5::real[]::halfvec) as qd, -(direction <#> direction) as dd,
                   -($5::real[]::halfvec <#> $5::real[]::halfvec) as qq
              from (select l2_normalize(sum(embedding::vector))::halfvec as direction,
                           vector_norm(sum(embedding::vector)) / (count(*) + $9::float8) as shift
                      from pool where space_id = $4 and $5::real[] is not null) centre) products
), hits as materialized (
    -- The overlap is cheap and leaves few rows to take apart.
    select p.id, q.term
      from pool p join unnest($6::text[]) q (term) on q.term = any(p.terms)
     where p.terms && $6::text[]
), weights as materialized (
    select q.term, ln(1 + (size.n - count(h.id) + 0.5) / (count(h.id) + 0.5)) as idf
      from unnest($6::text[]) q (term)
      cross join size
      left join hits h on h.term = q.term
     group by q.term, size.n
), lexical as (
    select h.id, sum(w.idf) / nullif((select sum(idf) from weights), 0) as coverage
      from hits h join weights w on w.term = h.term
     group by h.id
), ranked as materialized (
    -- (a - s mu).(q - s mu) / |a - s mu| |q - s mu|, written out in dot products: no vector is made for a row.
    select p.id,
           least(1, $7::float8 * greatest(0, coalesce(
                        case when p.space_id = $4 and $5::real[] is not null then
                            (-(p.embedding <#> $5::real[]::halfvec) + shift * (p.embedding <#> direction)
                             - shift_qd + shift2_dd)
                            / nullif(sqrt(greatest(-(p.embedding <#> p.embedding)
                                                   + 2 * shift * (p.embedding <#> direction) + shift2_dd, 0)
                                          * query_norm2), 0)
                        end, 0))
                    + $8::float8 * coalesce(l.coverage, 0)) as score
      from pool p
      cross join mean
      left join lexical l on l.id = p.id
     where $10::text is null or p.kind = $10
), best as (
    select id, score from ranked where score > 0 and score >= $11::float8
     order by score desc, id limit $12
)
select m.id::text, m.kind, m.scope, m.content, m.source_thread_ids, m.created_at, m.updated_at, m.retired_at,
       r.recalled_at, best.score
  from best
  join memories m on m.project_id = $1 and m.id = best.id
  left join memory_recalls r on r.project_id = $1 and r.memory_id = best.id
 order by best.score desc, best.id;
