"""What a schema is made of, in words that can be compared."""

import asyncpg

_QUERIES = {
    "columns": """
        select format('%s.%s %s %s default %s identity %s', c.relname, a.attname, format_type(a.atttypid, a.atttypmod),
                      case when a.attnotnull then 'not null' else 'null' end,
                      coalesce(pg_get_expr(d.adbin, d.adrelid), '-'), a.attidentity)
          from pg_attribute a
          join pg_class c on c.oid = a.attrelid and c.relkind in ('r', 'p')
          left join pg_attrdef d on d.adrelid = c.oid and d.adnum = a.attnum
         where c.relnamespace = 'public'::regnamespace and a.attnum > 0 and not a.attisdropped""",
    "constraints": """
        select format('%s: %s', conrelid::regclass, pg_get_constraintdef(oid))
          from pg_constraint where connamespace = 'public'::regnamespace and contype <> 'n'""",
    "indexes": "select indexdef from pg_indexes where schemaname = 'public'",
    "options": """
        select format('%s %s', relname, reloptions) from pg_class
         where relnamespace = 'public'::regnamespace and reloptions is not null""",
    "functions": """
        select pg_get_functiondef(p.oid) from pg_proc p
          left join pg_depend d on d.objid = p.oid and d.deptype = 'e'
         where p.pronamespace = 'public'::regnamespace and d.objid is null""",
    "triggers": "select pg_get_triggerdef(oid) from pg_trigger where not tgisinternal",
}


async def shape_of(dsn: str) -> dict[str, list[str]]:
    """All that a schema's tables, constraints, indexes, functions and triggers say, each kind sorted."""
    connection = await asyncpg.connect(dsn, timeout=5)
    try:
        return {kind: sorted(row[0] for row in await connection.fetch(query)) for kind, query in _QUERIES.items()}
    finally:
        await connection.close()
