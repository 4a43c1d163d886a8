-- name: create_lane
-- No row comes back when the name is taken.
-- $1 project, $2 id, $3 name, $4 trust, $5 mode, $6 note, $7 owner, $8 untrusted writes are accepted
insert into lanes (project_id, id, name, trust, mode, note, owner, untrusted_writes_accepted_at)
values ($1, $2, $3, $4, $5, $6, $7, case when $8 then clock_timestamp() end)
on conflict (project_id, name) do nothing
returning name;

-- name: lock_lane
-- $1 project, $2 name
select id::text, name, trust, mode, note, owner from lanes where project_id = $1 and name = $2 for no key update;

-- name: update_lane
-- $1 project, $2 name, $3 trust, $4 mode, $5 note, $6 owner, $7 untrusted writes are accepted
update lanes
   set trust = $3, mode = $4, note = $5, owner = $6,
       untrusted_writes_accepted_at = case when $7 then clock_timestamp()
                                           when $3 = 'untrusted' and $4 = 'read-write' then untrusted_writes_accepted_at
                                      end
 where project_id = $1 and name = $2;

-- name: list_lanes
-- $1 project
select l.name, l.trust, l.mode, l.owner, l.note, l.created_at, l.untrusted_writes_accepted_at,
       (select count(*) from runtime_keys k
         where k.project_id = l.project_id and k.lane_id = l.id and k.revoked_at is null
           and (k.expires_at is null or k.expires_at > clock_timestamp())) as active_keys
  from lanes l
 where l.project_id = $1
 order by l.created_at, l.id;
