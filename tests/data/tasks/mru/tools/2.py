# It can be an LRUCache that pops the other end of the order.
edit("src/cachetools/__init__.py", '    "LRUCache",\n', '    "LRUCache",\n    "MRUCache",\n')
edit("src/cachetools/__init__.py", "class RRCache(Cache):\n", '''class MRUCache(LRUCache):
    """Most Recently Used (MRU) cache implementation."""

    def popitem(self):
        """Remove and return the `(key, value)` pair most recently used."""
        try:
            key = next(reversed(self.__order))
        except StopIteration:
            raise KeyError("%s is empty" % type(self).__name__) from None
        else:
            value = Cache.__getitem__(self, key)
            del self[key]
            return (key, value)


class RRCache(Cache):
''')
edit("src/cachetools/func.py", '"lru_cache", "rr_cache"', '"lru_cache", "mru_cache", "rr_cache"')
edit("src/cachetools/func.py", "LRUCache, RRCache, TTLCache", "LRUCache, MRUCache, RRCache, TTLCache")
edit("src/cachetools/func.py", "def rr_cache(", '''def mru_cache(maxsize=128, typed=False):
    """Decorator to wrap a function with a memoizing callable that saves
    up to `maxsize` results based on a Most Recently Used (MRU)
    algorithm.

    """
    if maxsize is None:
        return _cache({}, None, typed)
    elif callable(maxsize):
        return _cache(MRUCache(128), 128, typed)(maxsize)
    else:
        return _cache(MRUCache(maxsize), maxsize, typed)


def rr_cache(''')
edit("CHANGELOG.rst", "v8.0.1 (2026-11-17)\n", """v8.1.0 (unreleased)
===================

- Add ``MRUCache`` and ``@mru_cache``.


v8.0.1 (2026-11-17)
""")
write("tests/test_mru.py", '''import unittest

import cachetools.func
from cachetools import MRUCache

from . import CacheTestMixin


class MRUCacheTest(unittest.TestCase, CacheTestMixin):
    Cache = MRUCache

    def test_mru(self):
        cache = MRUCache(maxsize=2)
        cache[1] = 1
        cache[2] = 2
        cache[1]
        cache[3] = 3
        self.assertEqual([2, 3], sorted(cache))
        self.assertEqual((3, 3), cache.popitem())

    def test_decorator(self):
        square = cachetools.func.mru_cache(maxsize=2)(lambda n: n * n)
        self.assertEqual([1, 4, 9, 1], [square(n) for n in (1, 2, 3, 1)])
        self.assertEqual(3, square.cache_info().misses)
''')
run = "PYTHONPATH=src python -m pytest -q -x -p no:cacheprovider"
bash(f"{run} tests/test_mru.py")
