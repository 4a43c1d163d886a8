-- Lanes: when the operator accepted that a lane which reads untrusted input writes.
alter table lanes add column untrusted_writes_accepted_at timestamptz;
