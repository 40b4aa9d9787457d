# A check before anything is wrapped, and a test beside the others.
edit("src/cachetools/__init__.py", "    def decorator(func):\n", '''    if not callable(key):
        raise TypeError("key must be callable")

    def decorator(func):
''')
edit("tests/test_cached.py", '        self.assertEqual(func("101"), 5)\n', '''        self.assertEqual(func("101"), 5)

    def test_key_must_be_callable(self):
        with self.assertRaisesRegex(TypeError, "key must be callable"):
            cachetools.cached({}, key="n")
''')
edit("CHANGELOG.rst", "v8.0.1 (2026-11-17)\n", """v8.0.2 (unreleased)
===================

- Raise ``TypeError`` for ``@cached`` keys that cannot be called.


v8.0.1 (2026-11-17)
""")
bash("PYTHONPATH=src python -m pytest -q -x -p no:cacheprovider")
