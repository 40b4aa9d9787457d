"""The files in `deploy/` are valid, name what exists, and the proxy keeps each user at one front end."""

from __future__ import annotations

import importlib.metadata
import os
import re
import shutil
import socket
import ssl
import subprocess
import sys
import threading
import time
import tomllib
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, Final

import kubernetes_validate
import pytest
import yaml
from compose_spec import PyOptions

from engine.core.settings import SETTINGS
from tests.support.stores import PATIENCE, ROOT

DEPLOY: Final = ROOT / "deploy"
OPERATIONS: Final = (ROOT / "docs/operations.md").read_text(encoding="utf-8")
OWN: Final = {"REWINDOW_HOST", "REWINDOW_DB_PASSWORD"}
"""Variables of compose.yaml alone."""
MAKING_CERTIFICATES: Final = [
    "openssl",
    "req",
    "-x509",
    "-newkey",
    "rsa:2048",
    "-nodes",
    "-subj",
    "/CN=localhost",
    "-days",
    "2",
]


def manifests() -> list[dict[str, Any]]:
    return list(yaml.safe_load_all((DEPLOY / "kubernetes.yaml").read_text(encoding="utf-8")))


def cluster_manifests() -> list[dict[str, Any]]:
    """The RayCluster, and what belongs to it."""
    return list(yaml.safe_load_all((DEPLOY / "raycluster.yaml").read_text(encoding="utf-8")))


def values(of: object, name: str) -> Iterator[Any]:
    """The values of a key, at any depth."""
    if isinstance(of, dict):
        for key, value in of.items():
            if key == name:
                yield value
            yield from values(value, name)
    elif isinstance(of, list):
        for each in of:
            yield from values(each, name)


def test_compose_file_follows_its_specification() -> None:
    composed = PyOptions(apply_merge=True).from_yaml((DEPLOY / "compose.yaml").read_text(encoding="utf-8"))
    composed.validate()
    composed.to_spec()
    found = composed.to_dict()
    services = found["services"]
    assert set(services) == {"postgresql", "agent-1", "agent-2", "proxy"}
    one, two = services["agent-1"], services["agent-2"]
    assert one["environment"] == two["environment"]
    assert {each for each in one["volumes"] if not each.startswith("state-")} == {
        each for each in two["volumes"] if not each.startswith("state-")
    }
    assert "ports" not in services["postgresql"]
    assert not {"front"} & set(services["postgresql"]["networks"])
    mounted = [each.split(":")[0] for service in services.values() for each in service.get("volumes", ())]
    files = [each for each in mounted if each.startswith("./")] + [each["file"] for each in found["secrets"].values()]
    for name in files:
        assert (DEPLOY / name).is_file() or f"`{name.removeprefix('./')}`" in OPERATIONS


@pytest.mark.parametrize(
    "manifest",
    [*manifests(), *cluster_manifests()[1:]],
    ids=lambda each: f"{each['kind']}-{each['metadata']['name']}",
)
def test_manifest_follows_its_schema(manifest: dict[str, Any]) -> None:
    kubernetes_validate.validate(manifest, kubernetes_validate.latest_version(), strict=True)


FIELD: Final = re.compile(
    r"\.(?P<path>\S*?)(?P<required>\*?): (?P<type>\S+)(?: of (?P<item>\S+))?(?: .*?enum=(?P<enum>\S+))?.*"
)
"""A line of the digest of fields: a path, `*` if its last field is required, and a type."""
TYPES: Final = {
    "string": str,
    "boolean": bool,
    "integer": int,
    "object": dict,
    "array": list,
    "int-or-string": (int, str),
}


def ray_fields() -> dict[str, re.Match[str]]:
    """The fields of a RayCluster, as KubeRay defines them."""
    lines = (ROOT / "tests/data/kuberay/raycluster.fields.txt").read_text(encoding="utf-8").splitlines()
    found = [match for line in lines if (match := FIELD.fullmatch(line))]
    return {match["path"]: match for match in found}


def wrong_fields(value: Any, path: str, fields: dict[str, re.Match[str]]) -> Iterator[str]:
    """The fields of a value that the digest does not have, or has otherwise."""
    field = fields[path]
    if not isinstance(value, TYPES[field["type"]]):
        yield f"{path} must be {field['type']}"
    elif field["enum"] and value not in field["enum"].split("|"):
        yield f"{path} must be one of {field['enum']}"
    elif isinstance(value, list) and any(name.startswith(f"{path}[].") for name in fields):
        for each in value:
            yield from wrong_keys(each, f"{path}[].", fields)
    elif isinstance(value, dict) and any(name.startswith(f"{path}.") for name in fields):
        yield from wrong_keys(value, f"{path}.", fields)
    elif isinstance(value, dict) and field["item"] == "string":
        yield from (f"{path}.{name} must be string" for name, each in value.items() if not isinstance(each, str))


def wrong_keys(value: dict[str, Any], prefix: str, fields: dict[str, re.Match[str]]) -> Iterator[str]:
    for name, each in value.items():
        if prefix + name in fields:
            yield from wrong_fields(each, prefix + name, fields)
        else:
            yield f"there is no {prefix}{name}"
    for name, field in fields.items():
        own = name.removeprefix(prefix)
        if name.startswith(prefix) and field["required"] and "." not in own and own not in value:
            yield f"{name} is missing"


def test_ray_cluster_follows_the_fields_of_kuberay() -> None:
    fields = ray_fields()
    cluster = cluster_manifests()[0]
    assert list(wrong_keys(cluster, "", fields)) == []
    for value, sentence in (
        ({**cluster, "spec": {"workerGroupSpecs": []}}, "spec.headGroupSpec is missing"),
        ({**cluster, "spec": {**cluster["spec"], "authOptions": {"mode": "none"}}}, "must be one of disabled|token"),
        ({**cluster, "spec": {**cluster["spec"], "rayVersion": 2.6}}, "spec.rayVersion must be string"),
        ({**cluster, "kinds": ""}, "there is no kinds"),
    ):
        assert any(sentence in each for each in wrong_keys(value, "", fields)), sentence


def groups(cluster: dict[str, Any]) -> list[dict[str, Any]]:
    return [cluster["spec"]["headGroupSpec"], *cluster["spec"]["workerGroupSpecs"]]


@pytest.mark.parametrize("number", range(3))
def test_ray_pods_follow_their_schema(number: int) -> None:
    template = groups(cluster_manifests()[0])[number]["template"]
    pod = {"apiVersion": "v1", "kind": "Pod", "metadata": {**template["metadata"], "name": "pod"}}
    kubernetes_validate.validate({**pod, "spec": template["spec"]}, kubernetes_validate.latest_version(), strict=True)


def test_ray_cluster_refers_to_what_the_other_manifests_and_the_page_make() -> None:
    found = cluster_manifests()
    made = {(each["kind"], each["metadata"]["name"]) for each in manifests()}
    assert {each["metadata"]["namespace"] for each in found} == {"rewindow"}
    for name in values(found, "claimName"):
        assert ("PersistentVolumeClaim", name) in made
    for name in {*values(found, "secretName"), *(each["name"] for each in values(found, "secretKeyRef"))}:
        assert f"kubectl -n rewindow create secret generic {name} " in OPERATIONS
    for group in groups(found[0]):
        (container,) = group["template"]["spec"]["containers"]
        closed, _, _ = group["rayStartParams"]["temp-dir"].rpartition("/")
        assert f"mkdir -p -m 700 {closed}" in container["args"][0]
    labels = {group["template"]["metadata"]["labels"]["app"] for group in groups(found[0])} | {"postgresql"}
    for selector in (*values(found, "matchLabels"), *values(found, "selector")):
        assert selector.get("app", "postgresql") in labels
    text = (DEPLOY / "raycluster.yaml").read_text(encoding="utf-8")
    assert importlib.metadata.version("ray") == found[0]["spec"]["rayVersion"]
    command = re.search(r"exec rewindow-acp ((?:.|\n)*?)\n\s+env:", text)
    assert command is not None
    options = command[1].replace("\\", "").split()
    done = subprocess.run(
        [Path(sys.executable).parent / "rewindow-acp", *options], capture_output=True, text=True, timeout=PATIENCE
    )
    assert done.returncode == 2
    assert done.stderr.startswith("rewindow-acp: cannot use /etc/tls/tls.pem and /etc/tls/tls.pem for TLS: ")


def test_manifests_refer_to_each_other_or_to_what_the_page_makes() -> None:
    found = manifests()
    made = {(each["kind"], each["metadata"]["name"]) for each in found}
    assert {each["metadata"]["namespace"] for each in found[1:]} == {"rewindow"}
    for name in values(found, "serviceName"):
        assert ("Service", name) in made
    for name in values(found, "claimName"):
        assert ("PersistentVolumeClaim", name) in made
    labels = {
        each["spec"]["template"]["metadata"]["labels"]["app"] for each in found if "template" in each.get("spec", ())
    }
    for selector in values(found, "matchLabels"):
        assert selector["app"] in labels
    secrets = {*values(found, "secretName"), *(each["name"] for each in values(found, "secretKeyRef"))}
    for name in secrets:
        assert f"kubectl -n rewindow create secret generic {name} " in OPERATIONS
    for each in values(found, "configMap"):
        assert f"kubectl -n rewindow create configmap {each['name']} " in OPERATIONS


@pytest.mark.parametrize("name", ["Dockerfile", "compose.yaml", "kubernetes.yaml", "raycluster.yaml"])
def test_settings_exist(name: str) -> None:
    known = {row.variable for row in SETTINGS} | OWN
    assert set(re.findall(r"\bREWINDOW_[A-Z_]+\b", (DEPLOY / name).read_text(encoding="utf-8"))) <= known


def test_image_installs_extras_and_starts_a_program_that_exist(tmp_path: Path) -> None:
    source = (DEPLOY / "Dockerfile").read_text(encoding="utf-8")
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    (extras,) = re.findall(r"\[([a-z,]+)\]\"", source)
    assert set(extras.split(",")) <= set(project["optional-dependencies"])
    (entry,) = re.findall(r"ENTRYPOINT (\[.*\])", source)
    program, *options = yaml.safe_load(entry)
    assert program in project["scripts"]
    command = [Path(sys.executable).parent / program, *options, "--allow-host", "agents.example"]
    done = subprocess.run([*command, "--state-dir", str(tmp_path)], capture_output=True, text=True, timeout=PATIENCE)
    assert (done.returncode, done.stderr.count("\n")) == (2, 1)
    assert "there are no tokens in /etc/rewindow/acp-tokens" in done.stderr


# --- the proxy --------------------------------------------------------------------------------------------------------


class FrontEnd(ThreadingHTTPServer):
    """Answers with its name."""

    def __init__(self, name: str) -> None:
        self.name = name
        super().__init__(("127.0.0.1", 0), _Named)


class _Named(BaseHTTPRequestHandler):
    server: FrontEnd

    def do_GET(self) -> None:
        self.send_response(200)
        self.send_header("Content-Length", str(len(self.server.name)))
        self.end_headers()
        self.wfile.write(self.server.name.encode())

    def log_message(self, *_: object) -> None:
        """Nothing goes to the terminal."""


@contextmanager
def front_end(name: str) -> Iterator[FrontEnd]:
    with FrontEnd(name) as made:
        thread = threading.Thread(target=made.serve_forever)
        thread.start()
        try:
            yield made
        finally:
            made.shutdown()
            made.server_close()
            thread.join()


@contextmanager
def proxy(folder: Path, *addresses: str) -> Iterator[str]:
    """Runs HAProxy with the file of `deploy/`; yields its address."""
    program = shutil.which("haproxy", path=f"{os.environ['PATH']}:/usr/sbin")
    if program is None:
        pytest.skip("there is no haproxy; install Debian's package")
    certificate, key = folder / "cert.pem", folder / "key.pem"
    subprocess.run(
        [*MAKING_CERTIFICATES, "-keyout", key, "-out", certificate],
        capture_output=True,
        check=True,
    )
    (folder / "tls.pem").write_bytes(certificate.read_bytes() + key.read_bytes())
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    variables = {
        "LISTEN": f"127.0.0.1:{port}",
        "CERTIFICATE": str(folder / "tls.pem"),
        **{f"AGENT_{number}": address for number, address in enumerate(addresses, 1)},
    }
    command = [program, "-f", DEPLOY / "haproxy.cfg"]
    process = subprocess.Popen(command, env={**os.environ, **variables}, stdout=subprocess.DEVNULL)
    try:
        yield f"https://127.0.0.1:{port}/acp"
    finally:
        process.terminate()
        process.wait(PATIENCE)


def answer(url: str, token: str) -> str:
    """The name of the front end that answers a user's request, once the proxy has one."""
    context = ssl._create_unverified_context()
    request = urllib.request.Request(url, headers={"Authorization": f"Bearer {token}"})
    deadline = time.monotonic() + PATIENCE
    while True:
        try:
            with urllib.request.urlopen(request, timeout=PATIENCE, context=context) as response:
                return response.read().decode()
        except urllib.error.URLError:  # it starts, or has not noticed yet that a front end is gone
            assert time.monotonic() < deadline
            time.sleep(0.05)


def test_each_user_stays_at_one_front_end_and_moves_if_that_is_gone(tmp_path: Path) -> None:
    users = [f"token-{number}" for number in range(7)]
    with front_end("one") as one, front_end("two") as two:
        addresses = [f"127.0.0.1:{each.server_port}" for each in (one, two)]
        with proxy(tmp_path, *addresses) as url:
            first = {user: answer(url, user) for user in users}
            assert set(first.values()) == {"one", "two"}
            for _ in range(3):
                assert {user: answer(url, user) for user in users} == first
            two.shutdown()
            two.server_close()
            assert {answer(url, user) for user in users} == {"one"}
