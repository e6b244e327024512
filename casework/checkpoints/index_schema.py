"""The tables of the package index and the statements that fill and ask them, in one place."""

from __future__ import annotations

from typing import Final

from casework.checkpoints.call_names import CALLS_PHASE

SCHEMA_VERSION: Final = "5"
"""Raise it with every change below; an index of another version is thrown away and rebuilt."""

SCHEMA: Final = f"""
create table meta (name text primary key, value text not null) without rowid;
insert into meta values ('scan', '1');

create table packages (
    case_id text primary key,
    package_id text not null,
    generation integer not null,
    analysis_revision integer not null,
    phase text not null,
    status text not null,
    reason text, destination text, retry_at integer, automatic_retry integer,
    scan integer not null
) without rowid;

create table unsure (case_id text primary key) without rowid;

create table claims (case_id text primary key, worker text not null, until integer not null)
without rowid;

create table operations (
    case_id text not null,
    ophash text not null,
    operation_id text not null,
    analysis_revision integer not null,
    status text not null,
    current integer not null,
    due_at integer,
    position integer not null default 0,
    retry_at integer, reason text, destination text, automatic_retry integer,
    error_code text,
    rounds_completed integer not null, rounds_max integer,
    resumed_as text, resumed_from text,
    verdict text,
    last_round_at integer,
    standing text generated always as (
        case when verdict is null then status when verdict = 'rejected' then 'ERROR'
        else 'SUCCESS' end),
    primary key (case_id, ophash)
) without rowid;

create index operation_due on operations (due_at, position, case_id) where due_at is not null;
create index operation_ahead on operations (last_round_at)
    where due_at is not null and last_round_at is not null;
create index operation_status on operations (status, case_id, ophash) where current = 1;
create index operation_verdict on operations (case_id, ophash)
    where current = 1 and verdict is not null;
create index operation_resumable on operations (retry_at)
    where current = 1 and status = 'BLOCKED' and verdict is null and automatic_retry is not 0;

create table tally (kind text, status text, n integer not null, primary key (kind, status))
without rowid;

create trigger package_in after insert on packages when new.phase <> '{CALLS_PHASE}' begin
    insert into tally values ('package', new.status, 1)
    on conflict do update set n = n + 1;
end;
create trigger package_out after delete on packages when old.phase <> '{CALLS_PHASE}' begin
    update tally set n = n - 1 where kind = 'package' and status = old.status;
end;
create trigger package_moved after update of status on packages
when old.status <> new.status and new.phase <> '{CALLS_PHASE}' begin
    update tally set n = n - 1 where kind = 'package' and status = old.status;
    insert into tally values ('package', new.status, 1)
    on conflict do update set n = n + 1;
end;
create trigger operation_in after insert on operations when new.current = 1 begin
    insert into tally values ('operation', new.standing, 1)
    on conflict do update set n = n + 1;
end;
create trigger operation_out after delete on operations when old.current = 1 begin
    update tally set n = n - 1 where kind = 'operation' and status = old.standing;
end;
create trigger operation_moved after update of status, verdict, current on operations
when old.standing <> new.standing or old.current <> new.current begin
    update tally set n = n - old.current where kind = 'operation' and status = old.standing;
    insert into tally values ('operation', new.standing, new.current)
    on conflict do update set n = n + new.current;
end;
"""  # noqa: S608 - text of ours

PRAGMAS: Final = (
    # The write-ahead log of this SQLite (3.7.0 to 3.51.2) can be damaged by two writers, so the
    # older kind of journal is used. Nothing is synced: after a crash of the process the journal
    # still undoes half a transaction, and after a crash of the machine the index is rebuilt.
    "pragma busy_timeout = 5000",
    "pragma journal_mode = persist",
    "pragma synchronous = off",
    "pragma temp_store = memory",
    "pragma cache_size = -8000",
)

PUT_PACKAGE: Final = """
insert into packages values (
    :case_id, :package_id, :generation, :analysis_revision, :phase, :status,
    :reason, :destination, :retry_at, :automatic_retry,
    (select cast(value as integer) from meta where name = 'scan'))
on conflict (case_id) do update set
    package_id = excluded.package_id, generation = excluded.generation,
    analysis_revision = excluded.analysis_revision, phase = excluded.phase,
    status = excluded.status, reason = excluded.reason, destination = excluded.destination,
    retry_at = excluded.retry_at, automatic_retry = excluded.automatic_retry, scan = excluded.scan
"""

PUT_OPERATION: Final = """
insert into operations values (
    :case_id, :ophash, :operation_id, :analysis_revision, :status, :current, :due_at, 0,
    :retry_at, :reason, :destination, :automatic_retry, :error_code,
    :rounds_completed, :rounds_max, :resumed_as, :resumed_from, :verdict, :last_round_at)
on conflict (case_id, ophash) do update set
    status = excluded.status, current = excluded.current, due_at = excluded.due_at,
    retry_at = excluded.retry_at, reason = excluded.reason, destination = excluded.destination,
    automatic_retry = excluded.automatic_retry, error_code = excluded.error_code,
    rounds_completed = excluded.rounds_completed, rounds_max = excluded.rounds_max,
    resumed_as = excluded.resumed_as, resumed_from = excluded.resumed_from,
    verdict = excluded.verdict, last_round_at = excluded.last_round_at
"""

PLAN: Final = f"""
insert into operations
select case_id, :ophash, :operation_id, :revision, :status, 1, :due_at, :position,
    null, null, null, null, null, 0, null, null, null, null, null
from packages
where analysis_revision = :revision and (:case_id is null or case_id = :case_id)
    and packages.status <> 'FORGOTTEN' and packages.phase <> '{CALLS_PHASE}'
on conflict (case_id, ophash) do update set position = excluded.position,
    status = case when :status = 'READY' then 'READY' else status end,
    due_at = case when :status = 'READY' then 0 else due_at end
where status in ('READY', 'HELD', 'SKIPPED')
    and (position <> excluded.position or (:status = 'READY' and status <> 'READY'))
"""  # noqa: S608 - text of ours

SET_PLANNED: Final = """
update operations set status = :status, due_at = case when :status = 'READY' then 0 end
where case_id = :case_id and ophash = :ophash and status in ('READY', 'HELD', 'SKIPPED')
"""

DROP_PLANNED: Final = """
delete from operations
where case_id = ? and ophash = ? and status in ('READY', 'HELD', 'SKIPPED')
"""

HOLD_SKIPPED: Final = """
update operations set status = 'HELD' where current = 1 and status = 'SKIPPED' and operation_id = ?
"""

HOLD_SKIPPED_OF_CASE: Final = """
update operations set status = 'HELD' where case_id = ? and status = 'SKIPPED'
"""

SKIP_BEHIND: Final = """
update operations set status = 'SKIPPED'
where current = 1 and status = 'HELD' and operation_id = :operation_id and exists (
    select 1 from operations needed where needed.case_id = operations.case_id
    and needed.current = 1 and needed.status = 'SKIPPED'
    and needed.operation_id in (select value from json_each(:needs)))
"""

_SAME_CAMPAIGNS: Final = """
(needed.operation_id = need.value or (
    substr(needed.operation_id, 1, length(need.value) + 1) = need.value || '@'
    and substr(needed.operation_id, length(need.value) + 2) not glob '*[^0-9]*'))
"""

RELEASE: Final = f"""
update operations set status = 'READY', due_at = 0
where current = 1 and status = 'HELD' and operation_id = :operation_id
and not exists (
    select 1 from json_each(:needs) need where not exists (
        select 1 from operations needed where needed.case_id = operations.case_id
        and needed.current = 1 and needed.standing = 'SUCCESS' and {_SAME_CAMPAIGNS}))
and (:parts is null or not exists (
    select 1 from operations part where part.case_id = operations.case_id
    and part.current = 1 and part.standing <> 'SUCCESS'
    and substr(part.operation_id, 1, length(:parts)) = :parts
    and part.operation_id glob '*#[1-9]*of[1-9]*'))
"""  # noqa: S608 - text of ours

DROP_OLD_STATES: Final = """
delete from operations where case_id = ?
and (status not in ('READY', 'HELD', 'SKIPPED') or analysis_revision <> ?)
"""

PLANNED_IDS: Final = """
select distinct operation_id from operations
where current = 1 and status in ('READY', 'HELD', 'SKIPPED')
"""

CURRENT_IDS: Final = "select distinct operation_id from operations where current = 1"

TAKE_BACK: Final = """
delete from operations
where current = 1 and status in ('READY', 'HELD', 'SKIPPED') and operation_id = ?
"""

OPERATION_COLUMNS: Final = """
operations.case_id, packages.package_id, ophash, operation_id, operations.analysis_revision,
operations.status, due_at, operations.retry_at, operations.reason, operations.destination,
operations.automatic_retry, error_code, rounds_completed, rounds_max, resumed_from, verdict
"""

_UNCLAIMED: Final = """
not exists (select 1 from claims
    where claims.case_id = operations.case_id and claims.worker <> ? and claims.until > ?)
"""

DUE: Final = f"""
select {OPERATION_COLUMNS} from operations indexed by operation_due join packages using (case_id)
where due_at is not null and due_at <= ? and {_UNCLAIMED}
order by due_at, position, operations.case_id limit ?
"""  # noqa: S608 - column names of ours

AHEAD: Final = f"""
select {OPERATION_COLUMNS} from operations indexed by operation_ahead join packages using (case_id)
where due_at is not null and last_round_at > ? and {_UNCLAIMED}
order by last_round_at, operations.case_id limit ?
"""  # noqa: S608 - column names of ours
"""What waits for its next round after one that, by the clock, has not been yet."""

DUE_BETWEEN: Final = """
select count(*) from operations where due_at >= ? and due_at < ?
"""

IN_STATUS: Final = f"""
select {OPERATION_COLUMNS} from operations join packages using (case_id)
where current = 1 and operations.status = ? and (operations.case_id, ophash) > (?, ?)
order by operations.case_id, ophash limit ?
"""  # noqa: S608 - column names of ours

DECIDED: Final = f"""
select {OPERATION_COLUMNS} from operations join packages using (case_id)
where current = 1 and verdict is not null and (operations.case_id, ophash) > (?, ?)
order by operations.case_id, ophash limit ?
"""  # noqa: S608 - column names of ours

RESUMABLE: Final = f"""
select {OPERATION_COLUMNS} from operations join packages using (case_id)
where current = 1 and operations.status = 'BLOCKED' and verdict is null
    and operations.automatic_retry is not 0 and operations.retry_at <= ?
order by operations.retry_at limit ?
"""  # noqa: S608 - column names of ours

OF_CASE: Final = f"""
select {OPERATION_COLUMNS} from operations join packages using (case_id)
where operations.case_id = ? and current = 1 order by position, operation_id
"""  # noqa: S608 - column names of ours

PACKAGES: Final = """
select case_id, package_id, generation, analysis_revision, phase, status,
    reason, destination, retry_at, automatic_retry
from packages
"""

PACKAGES_AFTER: Final = f"""{PACKAGES}
where case_id > ? and case_id >= ? and substr(case_id, 1, ?) = ? and status <> 'FORGOTTEN'
order by case_id limit ?
"""

KNOWN: Final = """
select generation, package_id,
    scan = (select cast(value as integer) from meta where name = 'scan'), analysis_revision
from packages where case_id = ?
"""
"""What is known of a package, the third column telling whether the newest rescan saw it too."""

SCAN: Final = "select cast(value as integer) from meta where name = 'scan'"
"""The number of the newest rescan."""

GONE: Final = "select case_id from packages where scan < ?"
"""Packages that a rescan did not find, nor any that began after it."""
