"""The example values, and what each supposes that the operator has made before."""

from chart.helms import CHART
from chart.references import Outside

EXAMPLES = sorted(path.stem for path in (CHART / "examples").glob("*.yaml"))

OUTSIDE = {
    "quickstart": Outside(),
    "production": Outside(
        secrets={
            "registry": {".dockerconfigjson"},
            "memlane-database": {"DATABASE_URL"},
            "memlane-redis": {"REDIS_URL"},
            "memlane-license": {"MEMLANE_LICENSE"},
            "memlane-join": {"MEMLANE_JOIN_SECRETS"},
            "memlane-embeddings": {"api-key"},
        }
    ),
    "external-embeddings": Outside(),
    "air-gapped": Outside(
        secrets={
            "memlane-database": {"DATABASE_URL"},
            "memlane-redis": {"REDIS_URL"},
            "memlane-license": {"MEMLANE_LICENSE"},
        },
        claims={"models"},
    ),
}

LEAST = {
    "image": {"repository": "registry.example.com/memlane"},
    "database": {"url": "postgresql://memlane:pass-of-database@postgres.data:5432/memlane"},
    "redis": {"url": "redis://:pass-of-redis@redis.data:6379/0"},
    "license": {"keys": f"example:{'A' * 43}", "token": "token-of-license"},
}
"""The least values that render."""
