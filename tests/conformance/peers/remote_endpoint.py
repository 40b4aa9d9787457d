"""A conforming endpoint for requests of HTTP, which defects change. Standard library only."""

from __future__ import annotations

from typing import Any

from line_peer import LinePeer, Message

STREAM = "text/event-stream"


class Endpoint(LinePeer):
    """Answers `_http` as a server of the proposal would."""

    version = "HTTP/2"
    is_named = True
    body = 'id: 1\ndata: {"id":"listed"}\n\n'

    def __init__(self, world: Any) -> None:
        super().__init__(world)
        self.known = {"one"}

    def take_call(self, message: Message) -> None:
        status, body = self.respond(message["params"])
        headers = {"acp-connection-id": "one"} if status in (200, 201) and self.is_named else {}
        result = {"status": status, "headers": headers, "body": body, "version": self.version}
        self.send({"jsonrpc": "2.0", "id": message["id"], "result": result})

    def respond(self, request: Message) -> tuple[int, str]:
        headers = request["headers"]
        if request["method"] == "POST":
            return self.post(headers, request["body"]), "{}"
        if request["method"] == "DELETE":
            return self.delete(headers), ""
        status = self.get(headers)
        return status, self.stream(headers) if status == 200 else ""

    def post(self, headers: Message, body: Any) -> int:
        if headers["Content-Type"] != "application/json":
            return 415
        if isinstance(body, list):
            return 501
        if body["method"] == "initialize":
            return 200
        return self.of(headers) or (400 if "prompt" in body["method"] and "Acp-Session-Id" not in headers else 202)

    def of(self, headers: Message) -> int:
        given = headers.get("Acp-Connection-Id")
        return 400 if given is None else 0 if given in self.known else 404

    def get(self, headers: Message) -> int:
        return (406 if headers.get("Accept") != STREAM else 0) or self.of(headers) or 200

    def stream(self, headers: Message) -> str:
        return self.body

    def delete(self, headers: Message) -> int:
        status = self.of(headers)
        if not status:
            self.known.discard(headers["Acp-Connection-Id"])
        return status or 202


def _other(wrong: Any, right: int, *, method: str = "", **wanted: Any) -> type[Endpoint]:
    """An endpoint that answers one request with another status."""

    class Wrong(Endpoint):
        def respond(self, request: Message) -> tuple[int, str]:
            status, body = super().respond(request)
            is_it = status == right and request["method"] == method
            is_it = is_it and all(request["headers"].get(name) == value for name, value in wanted.items())
            return (wrong if is_it else status), body

    return Wrong


class Nameless(Endpoint):
    is_named = False

    def of(self, headers: Message) -> int:
        given = headers.get("Acp-Connection-Id")
        return super().of({**headers, "Acp-Connection-Id": "one"} if given == "none" else headers)

    def delete(self, headers: Message) -> int:
        return super().delete({**headers, "Acp-Connection-Id": "one"} if headers else headers)


class Old(Endpoint):
    version = "HTTP/1.1"


class Silent(Endpoint):
    def stream(self, headers: Message) -> str:
        return self.body if "Last-Event-ID" in headers else ""


class Forgetful(Endpoint):
    def stream(self, headers: Message) -> str:
        return "" if "Last-Event-ID" in headers else self.body


class Immortal(Endpoint):
    def delete(self, headers: Message) -> int:
        return self.of(headers) or 202


JSON = "application/json"
DEFECTS = {
    "ACPR-A-INIT-001": _other(201, 200, method="POST"),
    "ACPR-A-INIT-002": Nameless,
    "ACPR-A-INIT-003": Old,
    "ACPR-A-POST-001": _other(400, 415, method="POST"),
    "ACPR-A-POST-002": _other(400, 501, method="POST"),
    "ACPR-A-POST-003": _other(404, 400, method="POST", **{"Acp-Connection-Id": None}),
    "ACPR-A-POST-004": _other(202, 404, method="POST", **{"Acp-Connection-Id": "unknown"}),
    "ACPR-A-POST-005": _other(202, 400, method="POST", **{"Acp-Connection-Id": "one"}),
    "ACPR-A-POST-006": _other(204, 202, method="POST"),
    "ACPR-A-STREAM-001": Silent,
    "ACPR-A-STREAM-002": Forgetful,
    "ACPR-A-STREAM-003": _other(200, 406, method="GET"),
    "ACPR-A-STREAM-004": _other(404, 400, method="GET"),
    "ACPR-A-STREAM-005": _other(200, 404, method="GET"),
    "ACPR-A-DELETE-001": _other(202, 400, method="DELETE"),
    "ACPR-A-DELETE-002": _other(405, 202, method="DELETE"),
    "ACPR-A-DELETE-003": Immortal,
}
