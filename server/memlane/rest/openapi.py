"""The OpenAPI 3.1 document, made from the route table and the same models that parse the requests."""

from collections.abc import Sequence
from http import HTTPStatus
from typing import Any

from pydantic import BaseModel
from pydantic.json_schema import models_json_schema

from memlane import __version__
from memlane.rest.idempotency import KEY_MAX
from memlane.rest.models import ErrorBody
from memlane.rest.routes import RouteSpec

Json = dict[str, Any]
_REF = "#/components/schemas/{model}"
_HEADERS: tuple[Json, ...] = (
    {
        "name": "X-Cpki-User-Id",
        "in": "header",
        "required": True,
        "schema": {"type": "string", "minLength": 1, "maxLength": 256},
        "description": "The app user's id; opaque. Bytes are UTF-8 or else Latin-1.",
    },
    {
        "name": "X-Cpki-Memory-Grant",
        "in": "header",
        "required": False,
        "schema": {"type": "string", "maxLength": 256},
        "description": 'Narrows what the key allows: `{"user":"read","project":"none"}`, each side one of '
        "`none`, `read`, `read-write`; a missing side is `none`.",
    },
)
_IDEMPOTENCY: Json = {
    "name": "Idempotency-Key",
    "in": "header",
    "required": False,
    "schema": {"type": "string", "minLength": 1, "maxLength": KEY_MAX},
    "description": "A retry with the same key within 24 hours gets the first answer again.",
}
_ID: Json = {
    "name": "id",
    "in": "path",
    "required": True,
    "schema": {"type": "string", "format": "uuid"},
    "description": "The memory's id.",
}


def openapi_document(table: Sequence[RouteSpec]) -> Json:
    """The document."""
    requests = {spec.body for spec in table if spec.body is not None}
    answers = {model for spec in table for model in spec.answers.values() if model is not None} | {ErrorBody}
    _, requested = models_json_schema(
        [(model, "validation") for model in sorted(requests, key=_name)], ref_template=_REF
    )
    _, answered = models_json_schema(
        [(model, "serialization") for model in sorted(answers, key=_name)], ref_template=_REF
    )
    paths: dict[str, Json] = {}
    for spec in table:
        paths.setdefault(spec.path, {})[spec.method.lower()] = _operation(spec)
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "Memlane",
            "version": __version__,
            "description": "An open memory backend for agent applications.",
            "license": {"name": "Apache-2.0", "identifier": "Apache-2.0"},
        },
        "paths": paths,
        "components": {
            "schemas": {**requested.get("$defs", {}), **answered.get("$defs", {})},
            "securitySchemes": {
                "runtimeKey": {
                    "type": "http",
                    "scheme": "bearer",
                    "description": "A runtime key: `cpk-<project>_<short>_<long>`.",
                }
            },
        },
    }


def _operation(spec: RouteSpec) -> Json:
    operation: Json = {
        "operationId": f"{spec.handler.__name__}_{spec.path.strip('/').replace('/', '_').replace('{id}', 'id')}",
        "summary": spec.summary,
        "tags": [spec.tag],
        "parameters": _parameters(spec),
        "responses": _responses(spec),
    }
    if not spec.open:
        operation["security"] = [{"runtimeKey": []}]
    if spec.body is not None:
        operation["requestBody"] = {
            "required": spec.body_required,
            "content": {"application/json": {"schema": _ref(spec.body)}},
        }
    return operation


def _parameters(spec: RouteSpec) -> list[Json]:
    parameters: list[Json] = [_ID] if "{id}" in spec.path else []
    if spec.needs_user:
        parameters += _HEADERS
    if spec.idempotent_by_key:
        parameters.append(_IDEMPOTENCY)
    if spec.query is not None:
        schema = spec.query.model_json_schema()
        for name, about in schema["properties"].items():
            about = dict(about)  # noqa: PLW2901 - a copy, so that the model's schema stays whole
            description = about.pop("description", "")
            for noise in ("title", "default"):
                about.pop(noise, None)
            options = [option for option in about.pop("anyOf", []) if option.get("type") != "null"]
            parameters.append(
                {
                    "name": name,
                    "in": "query",
                    "required": False,
                    "schema": {**about, **(options[0] if options else {})},
                    "description": description,
                }
            )
    return parameters


def _responses(spec: RouteSpec) -> Json:
    responses: Json = {}
    for status, model in spec.answers.items():
        responses[str(status)] = {"description": HTTPStatus(status).phrase}
        if model is not None:
            responses[str(status)]["content"] = {"application/json": {"schema": _ref(model)}}
    for status in spec.errors:
        responses[str(status)] = {
            "description": HTTPStatus(status).phrase,
            "content": {"application/json": {"schema": _ref(ErrorBody)}},
        }
    if spec.path == "/api/ready" or spec.path in {"/api/health", "/api/accepting"}:
        # A red health answer says what is wrong in the same form as a green one.
        responses["503"] = {**responses["200"], "description": HTTPStatus(503).phrase}
    return responses


def _ref(model: type[BaseModel]) -> Json:
    return {"$ref": _REF.format(model=model.__name__)}


def _name(model: type[BaseModel]) -> str:
    return model.__name__
