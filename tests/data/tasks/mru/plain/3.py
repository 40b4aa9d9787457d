# Python mangles `__order` with the name of the class that it stands in, which is LRUCache's.
replace("src/cachetools/__init__.py", "next(reversed(self.__order))", "next(reversed(self._LRUCache__order))")
run("tests/test_mru.py", "tests/test_lru.py", "tests/test_func.py")
