"""The models that a user can choose from, and what providers say about them.

A provider with a key is asked for its models at a start, at most once a day. Its answer is kept in a file of the state
directory, because an editor shows the choice at once and a provider may be unreachable; until the first answer a few
known names stand for it. Keys go to the address of their provider only, and are not kept here.
"""

from __future__ import annotations

import json
import logging
import os
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Final, cast

import msgspec
from msgspec import Struct

from ...core.errors import InvalidRequestError
from ...log.redaction import Redactor
from ...log.secrets import find_secrets
from .providers import Provider, address_of, address_shown, configured, provider_of

logger = logging.getLogger(__name__)

FILE: Final = "models.json"
FRESH_SECONDS: Final = 86_400.0
"""How long an answer is good."""
ASK_SECONDS: Final = 10.0
MOST_BYTES: Final = 8 << 20
"""Of an answer. OpenRouter's has 1 MB."""
MOST_MODELS: Final = 300
"""The most models of one provider that are offered."""
_NAME_CHARS: Final = 120
_REFUSED: Final = (401, 403)
_INVALID: Final = (b"API_KEY_INVALID", b"API key not valid")
"""What Google says about a key, with status 400."""
_NO_CHAT: Final = (
    *("embed", "whisper", "tts", "dall-e", "moderation", "transcribe", "realtime", "audio", "image", "sora", "veo"),
    *("davinci", "babbage", "rerank", "aqa", "speech", "ocr", "guard", "live", "robotics", "computer-use"),
)
"""Parts of names of models that do not chat."""
_WINDOWS: Final = ("context_window", "context_length", "max_input_tokens", "inputTokenLimit", "max_context_length")
"""What providers call the tokens of a window: Groq, OpenRouter, Anthropic, Google, Mistral."""
_WINDOWS_OF_SERVERS: Final = ("max_model_len", "max_context_len", "n_ctx")
"""What servers call it: vLLM, others, and llama.cpp, in the object `meta`."""


class Listed(Struct, frozen=True):
    """A model that can be chosen: its name as users write it, a title, and its window in tokens if it is known."""

    spec: str
    title: str
    window: int | None = None


class _Kept(Struct, frozen=True):
    """An answer of a provider, at `address`."""

    at: float
    address: str
    models: tuple[Listed, ...]


def listed(name: str, answer: object) -> list[Listed]:
    """Return the models that chat of an answer, newest first where it says so.

    Args:
        name: of the provider.
        answer: a decoded answer of any provider.

    Raises:
        ValueError: it has no list of models.
    """
    table = cast("dict[str, object]", answer) if isinstance(answer, dict) else {}
    rows = table.get("data", table.get("models"))
    if not isinstance(rows, list):
        raise ValueError("the answer has no list of models")
    found: list[tuple[int | float, Listed]] = []
    for row in cast("list[object]", rows):
        if not isinstance(row, dict):
            continue
        model = _model(name, cast("dict[str, Any]", row))
        if model is not None:
            made = cast("dict[str, Any]", row).get("created")
            found.append((made if isinstance(made, int | float) else 0, model))
    found.sort(key=lambda entry: entry[0], reverse=True)
    return [model for _, model in found[:MOST_MODELS]]


def _model(name: str, row: Mapping[str, Any]) -> Listed | None:
    identity = row.get("id") or row.get("name")
    if not isinstance(identity, str) or not identity.isprintable() or not 0 < len(identity) <= _NAME_CHARS:
        return None
    identity = identity.removeprefix("models/")
    methods, can = row.get("supportedGenerationMethods"), row.get("capabilities")
    if isinstance(methods, list) and "generateContent" not in methods:
        return None
    if isinstance(can, dict) and cast("dict[str, object]", can).get("completion_chat") is False:
        return None
    if any(part in identity.lower() for part in _NO_CHAT):
        return None
    title = row.get("display_name") or row.get("displayName") or identity
    meta = row.get("meta")
    facts: Mapping[str, object] = {**(cast("dict[str, Any]", meta) if isinstance(meta, dict) else {}), **row}
    counts = (facts.get(key) for key in (*_WINDOWS, *_WINDOWS_OF_SERVERS))
    window = next((count for count in counts if isinstance(count, int)), None)
    return Listed(
        f"provider:{name}:{identity}",
        title if isinstance(title, str) and title.isprintable() and len(title) <= _NAME_CHARS else identity,
        window if window is not None and window > 0 else None,
    )


def ask(name: str, provider: Provider, environ: Mapping[str, str]) -> list[Listed]:
    """Ask a provider for its models. Blocks for at most ten seconds.

    A model whose name repeats a secret of the environment is left out: such a name could not be shown, nor sent.

    Raises:
        OSError: it cannot be reached, or refused.
        ValueError: its answer is none.
        InvalidRequestError: the environment names no address for it.
    """
    listing = provider.listing
    assert listing is not None
    data = _answer_to(provider, listing.path, environ)
    try:
        found = listed(name, json.loads(data))
    except RecursionError:
        raise ValueError("the answer is nested too deeply") from None
    hidden = Redactor(find_secrets(environ).values)
    return [model for model in found if not hidden.holds(f"{model.spec}\n{model.title}")]


def prove(name: str, provider: Provider, environ: Mapping[str, str]) -> int:
    """Ask a provider for its models with the key that it has; return their number. Blocks like `ask`.

    Raises:
        RefusedKeyError: the provider does not accept the key.
        OSError, ValueError, InvalidRequestError: like `ask`.
    """
    listing = provider.listing
    assert listing is not None
    if listing.proof:
        _answer_to(provider, listing.proof, environ)
    return len(ask(name, provider, environ))


class RefusedKeyError(OSError):
    """Raised if a provider answers that a key is wrong, or that it does not permit the request."""


def _answer_to(provider: Provider, path: str, environ: Mapping[str, str]) -> bytes:
    """Return the answer to GET; raises like `ask`."""
    import httpx2  # on a thread, and only where a provider is configured

    listing = provider.listing
    assert listing is not None
    headers = dict(listing.headers)
    if key := provider.key(environ):
        headers[listing.header] = f"Bearer {key}" if listing.header == "authorization" else key
    address = f"{address_of(provider, environ)}{path}"
    try:
        with httpx2.stream("GET", address, headers=headers, timeout=ASK_SECONDS, follow_redirects=False) as answer:
            if answer.status_code in _REFUSED:
                raise RefusedKeyError(f"HTTP {answer.status_code}")
            data = bytearray()
            deadline = time.monotonic() + ASK_SECONDS
            for piece in answer.iter_bytes():
                data += piece
                if len(data) > MOST_BYTES:
                    raise ValueError(f"the answer is longer than {MOST_BYTES:,} bytes")
                if time.monotonic() > deadline:
                    raise OSError("the answer takes too long")
            if not answer.is_success:
                if any(words in data for words in _INVALID):
                    raise RefusedKeyError(f"HTTP {answer.status_code}")
                raise OSError(f"HTTP {answer.status_code}")
    except (httpx2.HTTPError, httpx2.InvalidURL) as error:
        raise OSError(str(error)) from None
    return bytes(data)


class Catalog:
    """The models that can be chosen.

    Args:
        named: the names of the settings, the default first.
        environ: with keys and addresses.
        folder: the state directory.
        now: seconds since the Unix epoch.
    """

    def __init__(
        self, named: Sequence[str], environ: Mapping[str, str], folder: Path, now: Callable[[], float] = time.time
    ) -> None:
        self._named = tuple(dict.fromkeys(named))
        self._environ = environ
        self._path = folder / FILE
        self._now = now
        self._kept: dict[str, _Kept] | None = None

    @property
    def offered(self) -> Sequence[Listed]:
        """The models to choose from: those of the settings, then those of each provider with a key."""
        models = {name: Listed(name, name.removeprefix("provider:")) for name in self._named}
        for name, provider in self._configured().items():
            answer = self._answer(name, provider)
            known = [Listed(f"provider:{name}:{model}", model) for model in provider.known]
            for model in known if answer is None else answer.models:
                models[model.spec] = model
        return tuple(models.values())

    def window(self, spec: str) -> int | None:
        """Return the tokens that a model's provider says it can read, if it does."""
        kind, _, rest = spec.partition(":")
        name = rest.partition(":")[0]
        if kind != "provider" or provider_of(name, self._environ).listing is None:
            return None
        answer = self._answer(name, provider_of(name, self._environ))
        return next((model.window for model in answer.models if model.spec == spec), None) if answer else None

    def refresh(self) -> bool:
        """Ask the providers whose answers are old, and keep what they say; return whether it is new. Blocks."""
        if find_spec("pydantic_ai") is None:
            return False  # none of their models can be used
        changed = False
        for name, provider in self._configured().items():
            before = self._answer(name, provider)
            if before is not None and 0 <= self._now() - before.at < FRESH_SECONDS:
                continue
            try:
                models = tuple(ask(name, provider, self._environ))
            except (OSError, ValueError, InvalidRequestError) as error:
                logger.info("the models of %s could not be listed (%s)", name, type(error).__name__)
                continue
            if models:
                address = address_shown(address_of(provider, self._environ))
                self._all()[name] = _Kept(self._now(), address, models)
                changed = changed or before is None or before.models != models
                self._keep()
        return changed

    def _configured(self) -> Mapping[str, Provider]:
        return configured(self._environ, self._named)

    def _answer(self, name: str, provider: Provider) -> _Kept | None:
        kept = self._all().get(name)
        try:
            is_there = kept is not None and kept.address == address_shown(address_of(provider, self._environ))
        except InvalidRequestError:  # which each use of the model reports
            return None
        return kept if is_there else None

    def _all(self) -> dict[str, _Kept]:
        if self._kept is None:
            try:
                self._kept = msgspec.json.decode(self._path.read_bytes(), type=dict[str, _Kept])
            except (OSError, msgspec.MsgspecError, UnicodeDecodeError):
                self._kept = {}
        return self._kept

    def _keep(self) -> None:
        # A choice that cannot be kept is asked for again by the next process.
        with suppress(OSError):
            self._path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
            partial = self._path.with_name(f".{FILE}.{os.getpid()}")
            try:
                partial.touch(0o600)
                partial.write_bytes(msgspec.json.encode(self._all()))
                os.replace(partial, self._path)
            finally:
                partial.unlink(missing_ok=True)
