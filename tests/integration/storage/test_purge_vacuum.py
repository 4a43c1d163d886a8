"""What a purge knows of older snapshots."""

from uuid import uuid4

import asyncpg

from memlane.storage.purge_vacuum import TABLES, vacuum
from memlane.storage.statements import statement
from support.service import Deployment


async def test_a_plain_role_sees_the_older_snapshots_of_other_roles(deployment: Deployment) -> None:
    role = f"plain_{uuid4().hex}"
    await deployment.execute(f"create role {role} login")
    await deployment.execute(f"grant select, insert, update, delete on all tables in schema public to {role}")
    plain = await asyncpg.connect(deployment.dsn, user=role, timeout=5)
    reader = await asyncpg.connect(deployment.dsn, timeout=5)
    try:

        async def older() -> int:
            newest = await plain.fetchval(statement("next_transaction"))
            counted: int = await plain.fetchval(statement("count_older_snapshots"), newest)
            return counted

        assert await older() == 0
        await reader.execute("begin isolation level repeatable read")
        await reader.fetch("select 1 from pg_class limit 1")
        assert await older() == 1
        await reader.execute("commit")
        assert await older() == 0
        # One that wrote and has no snapshot now holds back as much.
        await reader.execute("begin")
        await reader.execute("create table written (id int)")
        assert await older() == 1
        await reader.execute("rollback")
        # A role that writes and owns nothing is told what it may not vacuum.
        assert set((await vacuum(plain, 0.0)).refused) == set(TABLES)
    finally:
        await reader.close()
        await plain.close()
        await deployment.execute(f"drop owned by {role}")
        await deployment.execute(f"drop role {role}")
