# A check before anything is wrapped, and a test beside the others.
import os
def replace(path, old, new):
    with open(path) as file:
        text = file.read()
    assert text.count(old) == 1
    with open(path, "w") as file:
        file.write(text.replace(old, new))
replace("src/cachetools/__init__.py", "    def decorator(func):\n", '''    if not callable(key):
        raise TypeError("key must be callable")

    def decorator(func):
''')
replace("tests/test_cached.py", '        self.assertEqual(func("101"), 5)\n', '''        self.assertEqual(func("101"), 5)

    def test_key_must_be_callable(self):
        with self.assertRaisesRegex(TypeError, "key must be callable"):
            cachetools.cached({}, key="n")
''')
replace("CHANGELOG.rst", "v8.0.1 (2026-11-17)\n", """v8.0.2 (unreleased)
===================

- Raise ``TypeError`` for ``@cached`` keys that cannot be called.


v8.0.1 (2026-11-17)
""")
tests = subprocess.run(
    ["python", "-m", "pytest", "-q", "-x", "-p", "no:cacheprovider"],
    env={**os.environ, "PYTHONPATH": "src"}, capture_output=True, text=True,
)
print(tests.stdout, tests.stderr)
