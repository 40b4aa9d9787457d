"""What every store promises about content, over all of the registry."""

from __future__ import annotations

from random import Random

import pytest

from engine.core.errors import InvalidRequestError
from engine.core.ids import BlobDigest
from engine.log.store.schema import MAX_BLOB, digest_of, pack, unpack
from engine.log.store_protocol import Store
from tests.support.stores import begun


@pytest.mark.parametrize("data", [b"", b"\0\xff" * 9, b"text " * 100_000], ids=["empty", "binary", "large"])
def test_content_is_there_at_once_and_under_its_digest(store: Store, data: bytes) -> None:
    digest = store.blob_put(data)
    assert store.blob_get(digest) == data
    assert store.blob_put(data) == digest
    assert digest.startswith("blake2b-")
    assert len(digest) == len("blake2b-") + 40
    begun(store, events=1)
    assert store.blob_get(digest) == data
    store.close()


def test_content_that_was_never_put_is_a_key_error(store: Store) -> None:
    with pytest.raises(KeyError):
        store.blob_get(BlobDigest("blake2b-" + "0" * 40))
    with pytest.raises(KeyError):
        store.blob_get(BlobDigest("\0'; --"))
    store.close()


def test_content_above_the_limit_is_refused(store: Store) -> None:
    with pytest.raises(InvalidRequestError, match="too large"):
        store.blob_put(bytes(MAX_BLOB + 1))
    store.close()


def test_a_changed_buffer_does_not_change_what_was_put(store: Store) -> None:
    buffer = bytearray(b"before")
    digest = store.blob_put(buffer)
    buffer[:] = b"later!"
    assert store.blob_get(digest) == b"before"
    store.close()


def test_large_content_that_hardly_gets_smaller_is_not_compressed_and_the_rest_is() -> None:
    # What is not compressed is larger than before, by a head for each block.
    random, text = Random(1).randbytes(2 << 20), b"text of a file\n" * 200_000
    assert len(pack(random)) > len(random)
    assert len(pack(text)) < len(text) // 20
    assert [unpack(digest_of(data), pack(data)) == data for data in (random, text)] == [True, True]
