"""The cluster's HTTP: discovery, objects, lists and watches, as far as Helm 3 and 4 ask for them."""

import json
import re
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import yaml

from chart.cluster import BY_PLURAL, KINDS, Cluster, Kind, Refused
from chart.manifests import Manifest
from chart.protobuf import MAGIC, read_secret

WATCH_SECONDS = 60.0
_OBJECT = re.compile(
    r"^(?P<base>/api/v1|/apis/[^/]+/[^/]+)(/namespaces/(?P<namespace>[^/]+))?/(?P<plural>[a-z]+)(/(?P<name>[^/]+))?$"
)


@contextmanager
def served(cluster: Cluster, home: Path) -> Iterator[str]:
    """Serve a cluster on a free port of loopback; writes `kubeconfig` for helm's home, and gives the address."""
    handler = type("Handler", (_Handler,), {"cluster": cluster})
    server = _Server(("127.0.0.1", 0), handler)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True)
    thread.start()
    url = f"http://127.0.0.1:{server.server_port}"
    config = {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": "test", "cluster": {"server": url}}],
        "users": [{"name": "test", "user": {"token": "none"}}],
        "contexts": [{"name": "test", "context": {"cluster": "test", "user": "test", "namespace": "memory"}}],
        "current-context": "test",
    }
    (home / "kubeconfig").write_text(json.dumps(config))
    (home / "kubeconfig").chmod(0o600)
    try:
        yield url
    finally:
        server.closing.set()
        server.shutdown()
        server.server_close()
        thread.join()


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    block_on_close = False

    def __init__(self, *arguments: Any) -> None:
        super().__init__(*arguments)
        self.closing = threading.Event()

    def handle_error(self, *_: object) -> None:
        """A client that leaves in the middle of a watch is no fault."""


class _Handler(BaseHTTPRequestHandler):
    cluster: Cluster
    server: _Server
    protocol_version = "HTTP/1.1"
    # Head and body go out apart: with Nagle's algorithm each answer would wait 40 ms for an acknowledgement.
    disable_nagle_algorithm = True

    def log_message(self, format: str, *arguments: object) -> None:  # noqa: A002 - the base class's name
        """Say nothing."""

    def do_GET(self) -> None:
        self._answer(self._get)

    def do_POST(self) -> None:
        self._answer(self._post)

    def do_PUT(self) -> None:
        self._answer(self._put)

    def do_PATCH(self) -> None:
        self._answer(self._patch)

    def do_DELETE(self) -> None:
        self._answer(self._delete)

    def _answer(self, act: Any) -> None:
        split = urlsplit(self.path)
        self.query = {key: values[-1] for key, values in parse_qs(split.query).items()}
        length = int(self.headers.get("Content-Length") or 0)
        raw = self.rfile.read(length)
        self.body: Manifest = {} if self.command in {"GET", "DELETE"} else _body(raw)
        self.where = split.path
        with suppress(BrokenPipeError, ConnectionResetError):
            try:
                act()
            except Refused as refusal:
                details = {"reason": refusal.reason, "message": str(refusal), "code": refusal.status}
                self._send({"apiVersion": "v1", "kind": "Status", "status": "Failure", **details}, refusal.status)

    def _send(self, answer: Any, status: int = 200) -> None:
        content = json.dumps(answer).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)

    def _place(self) -> tuple[Kind, str, str]:
        match = _OBJECT.match(self.where)
        kind = BY_PLURAL.get(match["plural"]) if match else None
        if match is None or kind is None or kind.base != match["base"]:
            # `/api/v1/namespaces/memory` names the namespace itself.
            if found := re.fullmatch(r"/api/v1/namespaces/([^/]+)", self.where):
                return BY_PLURAL["namespaces"], "", found[1]
            raise Refused(404, "NotFound", f"the server could not find {self.where}")
        return kind, match["namespace"] or "", match["name"] or ""

    def _get(self) -> None:
        if document := _discovery(self.where, self.cluster.version):
            self._send(document)
            return
        kind, namespace, name = self._place()
        if name:
            self._send(self.cluster.get(kind.plural, namespace, name))
        elif self.query.get("watch") in {"true", "1"}:
            self._watch(kind, namespace or None)
        else:
            found = [one for one in self.cluster.list(kind.plural, namespace or None) if self._wanted(one)]
            metadata = {"resourceVersion": str(self.cluster.head)}
            self._send(
                {"apiVersion": kind.api_version, "kind": f"{kind.kind}List", "metadata": metadata, "items": found}
            )

    def _wanted(self, manifest: Manifest) -> bool:
        labels = manifest["metadata"].get("labels") or {}
        for part in filter(None, self.query.get("labelSelector", "").split(",")):
            key, negated, value = re.fullmatch(r"([^=!]+)(!?)==?(.*)", part).groups()  # type: ignore[union-attr]
            if (labels.get(key) == value) == bool(negated):
                return False
        field = self.query.get("fieldSelector", "")
        return not field or field == f"metadata.name={manifest['metadata']['name']}"

    def _watch(self, kind: Kind, namespace: str | None) -> None:
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Transfer-Encoding", "chunked")
        self.end_headers()
        seen = int(self.query.get("resourceVersion") or 0)
        if self.query.get("sendInitialEvents") == "true":
            with self.cluster.changed:
                seen = self.cluster.head
                standing = self.cluster.list(kind.plural, namespace)
            for one in filter(self._wanted, standing):
                self._event("ADDED", one)
            ended = {"k8s.io/initial-events-end": "true"}
            metadata = {"resourceVersion": str(seen), "annotations": ended}
            self._event("BOOKMARK", {"apiVersion": kind.api_version, "kind": kind.kind, "metadata": metadata})
        while not self.server.closing.is_set():
            with self.cluster.changed:
                fresh = list(self.cluster.changes_after(seen, kind.plural, namespace))
                if not fresh:
                    self.cluster.changed.wait(0.2)
                    continue
                seen = fresh[-1].version
            for change in fresh:
                if self._wanted(change.object):
                    self._event(change.act, change.object)

    def _event(self, act: str, manifest: Manifest) -> None:
        line = json.dumps({"type": act, "object": manifest}).encode() + b"\n"
        self.wfile.write(f"{len(line):x}\r\n".encode() + line + b"\r\n")
        self.wfile.flush()

    def _post(self) -> None:
        kind, namespace, _ = self._place()
        self._send(self.cluster.create(kind.plural, namespace, self.body), 201)

    def _put(self) -> None:
        kind, namespace, name = self._place()
        self._send(self.cluster.replace(kind.plural, namespace, name, self.body))

    def _patch(self) -> None:
        kind, namespace, name = self._place()
        how = self.headers["Content-Type"].partition(";")[0]
        self._send(self.cluster.patch(kind.plural, namespace, name, how, self.body))

    def _delete(self) -> None:
        kind, namespace, name = self._place()
        self._send(self.cluster.delete(kind.plural, namespace, name))


def _body(raw: bytes) -> Manifest:
    if raw.startswith(MAGIC):
        return read_secret(raw)
    found: Manifest = yaml.load(raw, Loader=yaml.CSafeLoader)
    return found


def _discovery(path: str, version: str) -> Manifest | None:
    """What a client asks before it asks for objects; None for a path that is no such document."""
    if path.startswith("/openapi/v3/"):
        return _openapi([kind for kind in KINDS if kind.base == path.removeprefix("/openapi/v3")])
    if here := [kind for kind in KINDS if kind.base == path]:
        return _resources(here)
    major, minor = version.split(".")
    bases = sorted({kind.base for kind in KINDS})
    groups = sorted({kind.group for kind in KINDS if kind.group})
    documents: dict[str, Manifest] = {
        "/version": {"major": major, "minor": minor, "gitVersion": f"v{version}.0", "platform": "linux/amd64"},
        "/api": {"kind": "APIVersions", "versions": ["v1"]},
        "/apis": {"kind": "APIGroupList", "apiVersion": "v1", "groups": [_group(name) for name in groups]},
        "/openapi/v3": {"paths": {base[1:]: {"serverRelativeURL": f"/openapi/v3{base}"} for base in bases}},
    }
    return documents.get(path)


def _resources(here: list[Kind]) -> Manifest:
    verbs = ["create", "delete", "get", "list", "patch", "update", "watch"]
    return {
        "kind": "APIResourceList",
        "apiVersion": "v1",
        "groupVersion": here[0].api_version,
        "resources": [
            {"name": kind.plural, "singularName": kind.kind.lower(), "kind": kind.kind, "namespaced": kind.namespaced}
            | {"verbs": verbs}
            for kind in here
        ],
    }


def _group(name: str) -> Manifest:
    (version,) = {kind.version for kind in KINDS if kind.group == name}
    here = {"groupVersion": f"{name}/{version}", "version": version}
    return {"name": name, "versions": [here], "preferredVersion": here}


def _openapi(here: list[Kind]) -> Manifest:
    """Says only that the server checks fields itself, so that the client leaves it to us."""
    paths = {}
    for kind in here:
        place = f"{kind.base}/namespaces/{{namespace}}/{kind.plural}/{{name}}"
        spoken = {"group": kind.group, "version": kind.version, "kind": kind.kind}
        parameters = [{"name": "fieldValidation", "in": "query", "schema": {"type": "string"}}]
        paths[place] = {
            "patch": {
                "parameters": parameters,
                "responses": {"200": {"description": "OK"}},
                "x-kubernetes-action": "patch",
                "x-kubernetes-group-version-kind": spoken,
            }
        }
    return {"openapi": "3.0.0", "info": {"title": "test", "version": "1"}, "paths": paths}
