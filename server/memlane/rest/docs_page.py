"""The readable reference at /api/docs: one page of HTML made from the OpenAPI document, no script, no CDN."""

import json
from html import escape
from typing import Any

Json = dict[str, Any]

_STYLE = """
:root{color-scheme:light dark;--ink:#16181d;--soft:#5a6270;--line:#dfe3ea;--paper:#fff;--tint:#f5f7fa;--mark:#3451d1}
@media(prefers-color-scheme:dark){:root{--ink:#e7eaf0;--soft:#9aa4b5;--line:#2b313c;--paper:#12151b;--tint:#1a1f28;
--mark:#93a8ff}}
*{box-sizing:border-box}body{margin:0;background:var(--paper);color:var(--ink);
font:16px/1.55 system-ui,-apple-system,"Segoe UI",sans-serif}
.page{display:grid;grid-template-columns:15rem minmax(0,1fr);gap:3rem;max-width:76rem;
margin:0 auto;padding:2.5rem 1.5rem}
nav{position:sticky;top:2rem;align-self:start;max-height:calc(100vh - 4rem);overflow:auto;
font-size:.9rem}nav h2{font-size:.75rem;letter-spacing:.06em;
text-transform:uppercase;color:var(--soft);margin:1.2rem 0 .3rem}nav a{display:block;color:inherit;text-decoration:none;
padding:.12rem 0;overflow-wrap:anywhere}nav a:hover{color:var(--mark)}
h1{font-size:1.9rem;margin:0 0 .3rem;line-height:1.2}p{margin:.4rem 0 1rem;max-width:46rem}.soft{color:var(--soft)}
section{border-top:1px solid var(--line);padding:1.6rem 0 1rem}
h2.op{font-size:1.05rem;margin:0;display:flex;gap:.7rem;align-items:baseline;flex-wrap:wrap}
h2.op code{font-size:1rem;overflow-wrap:anywhere}
.verb{font:600 .75rem/1 ui-monospace,monospace;border:1px solid var(--mark);color:var(--mark);border-radius:.3rem;
padding:.28rem .45rem}
h3{font-size:.85rem;margin:1.1rem 0 .3rem;color:var(--soft)}
table{border-collapse:collapse;width:100%;font-size:.9rem}
td,th{text-align:left;vertical-align:top;padding:.4rem .9rem .4rem 0;
border-bottom:1px solid var(--line)}th{font-weight:500;color:var(--soft)}
code,pre{font-family:ui-monospace,SFMono-Regular,Menlo,monospace;font-size:.86em}
pre{background:var(--tint);border-radius:.5rem;padding:.9rem 1rem;overflow:auto}
a{color:var(--mark)}:focus-visible{outline:2px solid var(--mark);outline-offset:2px}
@media(max-width:52rem){.page{grid-template-columns:minmax(0,1fr);gap:1rem}nav{position:static;order:2}.scroll{overflow-x:auto}}
"""
_CURL = """curl -X POST "$MEMLANE_API_URL/api/memories" \\
  -H "Authorization: Bearer $MEMLANE_API_KEY" \\
  -H "X-Cpki-User-Id: ada" \\
  -H "Content-Type: application/json" \\
  -d '{"content": "Prefers concise status updates.", "kind": "operational"}'"""


def docs_page(document: Json) -> str:
    """The whole page."""
    schemas: Json = document["components"]["schemas"]
    chapters: dict[str, list[str]] = {}
    sections: list[str] = []
    for path, operations in document["paths"].items():
        for method, operation in operations.items():
            anchor = operation["operationId"]
            link = f'<a href="#{anchor}"><code>{method.upper()}</code> {escape(path.removeprefix("/api"))}</a>'
            chapters.setdefault(operation["tags"][0], []).append(link)
            sections.append(_section(anchor, method.upper(), path, operation, schemas))
    for name, model in schemas.items():
        link = f'<a href="#model-{name}">{escape(name)}</a>'
        chapters.setdefault("Models", []).append(link)
        sections.append(_model(name, model, schemas))
    navigation = "".join(f"<h2>{escape(tag)}</h2>{''.join(links)}" for tag, links in chapters.items())
    title = f"{document['info']['title']} API"
    return (
        '<!doctype html><html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f"<title>{title}</title><style>{_STYLE}</style></head><body>"
        f'<div class="page"><nav aria-label="Operations">{navigation}</nav><main>'
        f"<h1>{title}</h1>"
        f'<p class="soft">Version {escape(document["info"]["version"])} · '
        '<a href="/api/openapi.json">openapi.json</a></p>'
        "<p>A memory is a short, durable statement about a user or a project. Save it, recall it by meaning, and "
        "follow every change. Send the project's runtime key as a bearer token and the app user's id in "
        f"<code>X-Cpki-User-Id</code>.</p><pre>{escape(_CURL)}</pre>{''.join(sections)}</main></div></body></html>"
    )


def _section(anchor: str, method: str, path: str, operation: Json, schemas: Json) -> str:
    parts = [
        f'<section id="{anchor}"><h2 class="op"><span class="verb">{method}</span><code>{escape(path)}</code></h2>',
        f"<p>{_prose(operation['summary'])}</p>",
    ]
    if operation["parameters"]:
        rows = [
            (parameter["name"], f"{parameter['in']}{', required' if parameter['required'] else ''}",
             _kind(parameter["schema"]), parameter["description"])
            for parameter in operation["parameters"]
        ]  # fmt: skip
        parts.append(_table("Parameters", ("name", "in", "type", ""), rows))
    body = operation.get("requestBody")
    if body is not None:
        rows = _fields(body["content"]["application/json"]["schema"], schemas)
        parts.append(_table("Body", ("field", "", "type", ""), rows) if rows else "<p>No body, or <code>{}</code>.</p>")
    answers = []
    for status, response in operation["responses"].items():
        content = response.get("content")
        model = content["application/json"]["schema"]["$ref"].rsplit("/", 1)[-1] if content else "empty"
        answers.append((status, response["description"], model, ""))
        if content and status.startswith("2"):
            parts.append(_table(f"Answer {status}", ("field", "", "type", ""), _fields(
                content["application/json"]["schema"], schemas)))  # fmt: skip
    parts.append(_table("Statuses", ("status", "", "body", ""), answers))
    parts.append("</section>")
    return "".join(parts)


def _model(name: str, model: Json, schemas: Json) -> str:
    fields = _fields({"$ref": name}, schemas)
    about = f'<section id="model-{name}"><h2 class="op"><code>{escape(name)}</code></h2>'
    table = _table("Fields", ("field", "", "type", ""), fields) if fields else ""
    return f"{about}<p>{_prose(model.get('description', ''))}</p>{table}</section>"


def _prose(text: str) -> str:
    """Escaped text, with what stands between backticks as code."""
    parts = escape(text).split("`")
    return "".join(f"<code>{part}</code>" if place % 2 else part for place, part in enumerate(parts))


def _fields(schema: Json, schemas: Json) -> list[tuple[str, str, str, str]]:
    model = schemas[schema["$ref"].rsplit("/", 1)[-1]]
    required = set(model.get("required", ()))
    return [
        (name, "required" if name in required else "", _kind(about), about.get("description", ""))
        for name, about in model.get("properties", {}).items()
    ]


def _kind(schema: Json) -> str:
    if "$ref" in schema:
        return str(schema["$ref"].rsplit("/", 1)[-1])
    if "anyOf" in schema:
        return " or ".join(_kind(option) for option in schema["anyOf"])
    if "enum" in schema:
        return " | ".join(json.dumps(value) for value in schema["enum"])
    if "const" in schema:
        return json.dumps(schema["const"])
    if schema.get("type") == "array":
        return f"list of {_kind(schema.get('items', {}))}{_limits(schema, 'minItems', 'maxItems')}"
    return str(schema.get("format") or schema.get("type", "any")) + _limits(
        schema, "minLength", "maxLength"
    ) + _limits(schema, "minimum", "maximum")  # fmt: skip


def _limits(schema: Json, least: str, most: str) -> str:
    low, high = schema.get(least), schema.get(most)
    if low is None and high is None:
        return ""
    if low is None:
        return f", up to {high}"
    return f", from {low}" if high is None else f", {low} to {high}"


def _table(title: str, heads: tuple[str, ...], rows: list[tuple[str, str, str, str]]) -> str:
    head = "".join(f"<th>{escape(one)}</th>" for one in heads)
    lines = "".join(
        f"<tr><td><code>{escape(first)}</code></td>{''.join(f'<td>{_prose(cell)}</td>' for cell in rest)}</tr>"
        for first, *rest in rows
    )
    return f'<h3>{escape(title)}</h3><div class="scroll"><table><tr>{head}</tr>{lines}</table></div>'
