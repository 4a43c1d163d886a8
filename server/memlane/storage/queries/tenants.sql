-- name: find_key
-- $1 the key's public short id
select k.id::text, k.short, k.secret_sha256, o.id::text as organization_id, o.slug as organization, o.plan_code,
       p.id::text as project_id, p.slug as project, l.id::text as lane_id, l.name as lane_name, l.trust, l.mode,
       k.user_access, k.project_access, k.expires_at, k.revoked_at, p.screen_secrets, p.max_live_memories
  from runtime_keys k
  join projects p on p.id = k.project_id
  join organizations o on o.id = p.organization_id
  join lanes l on l.project_id = k.project_id and l.id = k.lane_id
 where k.short = $1;

-- name: find_managed_entitlement
-- $1 organization
select o.slug as organization, o.plan_code, p.features::text as plan_features, p.limits::text as plan_limits,
       v.active as override_active, v.features::text as override_features, v.limits::text as override_limits,
       v.expires_at as override_expires_at
  from organizations o
  left join plans p on p.code = o.plan_code
  left join entitlement_overrides v on v.organization_id = o.id
 where o.id = $1;

-- name: ensure_organization
-- $1 id, $2 slug, $3 name
insert into organizations (id, slug, name) values ($1, $2, $3) on conflict (slug) do nothing;

-- name: find_organization
-- $1 slug
select id::text, slug, name from organizations where slug = $1;

-- name: ensure_project
-- $1 id, $2 organization, $3 slug, $4 name
insert into projects (id, organization_id, slug, name) values ($1, $2, $3, $4) on conflict (slug) do nothing;

-- name: find_project
-- $1 slug
select p.id::text, p.slug, p.name, o.slug as organization, p.screen_secrets, p.max_live_memories
  from projects p join organizations o on o.id = p.organization_id where p.slug = $1;

-- name: set_project
-- $1 project, $2 screen secrets (null: as it is), $3 change the limit, $4 most live memories of a channel (or null)
update projects
   set screen_secrets = coalesce($2, screen_secrets),
       max_live_memories = case when $3 then $4 else max_live_memories end
 where id = $1;

-- name: list_projects
select p.slug, o.slug as organization, p.screen_secrets, p.max_live_memories, p.created_at
  from projects p join organizations o on o.id = p.organization_id
 order by o.slug, p.slug;

-- name: ensure_lane
-- $1 project, $2 id, $3 name, $4 trust, $5 mode
insert into lanes (project_id, id, name, trust, mode) values ($1, $2, $3, $4, $5)
on conflict (project_id, name) do nothing;

-- name: find_lane
-- $1 project, $2 name
select id::text, name, trust, mode from lanes where project_id = $1 and name = $2;

-- name: insert_key
-- $1 project, $2 id, $3 lane, $4 short, $5 hash, $6 label, $7 user access, $8 project access, $9 expires
insert into runtime_keys (project_id, id, lane_id, short, secret_sha256, label, user_access, project_access, expires_at)
values ($1, $2, $3, $4, $5, $6, $7, $8, $9);

-- name: list_keys
-- $1 project
select k.short, k.label, l.name as lane, l.mode, k.user_access, k.project_access, k.created_at, k.expires_at,
       k.revoked_at
  from runtime_keys k join lanes l on l.project_id = k.project_id and l.id = k.lane_id
 where k.project_id = $1
 order by k.created_at, k.id;

-- name: revoke_key
-- Revoking twice keeps the first time.
-- $1 short id
update runtime_keys set revoked_at = coalesce(revoked_at, clock_timestamp()) where short = $1
returning revoked_at;

-- name: revoke_whole_key
-- A key that differs from the stored one in anything is another key.
-- $1 short id, $2 hash of the secret, $3 project's slug
update runtime_keys k set revoked_at = coalesce(k.revoked_at, clock_timestamp())
  from projects p
 where k.short = $1 and k.secret_sha256 = $2 and p.id = k.project_id and p.slug = $3
returning k.revoked_at;

-- name: has_key
-- $1 short id
select exists (select from runtime_keys where short = $1);

-- name: ensure_space
-- $1 provider, $2 model, $3 dimensions, $4 fingerprint
insert into embedding_spaces (provider, model, dimensions, fingerprint) values ($1, $2, $3, $4)
on conflict do nothing;

-- name: find_space
-- $1 provider, $2 model, $3 dimensions, $4 fingerprint
select id from embedding_spaces where provider = $1 and model = $2 and dimensions = $3 and fingerprint = $4;

-- name: end_stream_sessions
-- $1 project, $2 user
insert into stream_logouts (project_id, user_id, ended_at) values ($1, $2, clock_timestamp())
on conflict (project_id, user_id) do update set ended_at = excluded.ended_at;

-- name: drop_old_answers
-- Runs in small batches, so that it never holds locks for long.
delete from idempotency_keys
 where ctid = any(array(select ctid from idempotency_keys
                         where created_at < clock_timestamp() - interval '25 hours' limit 1000));
