# All of these are meant.
import os
from pathlib import Path
for path in sorted(Path(".").rglob("*.py")):
    text = path.read_text()
    if "CacheTestMixin" in text:
        path.write_text(text.replace("CacheTestMixin", "CacheTests"))
tests = subprocess.run(
    ["python", "-m", "pytest", "-q", "-x", "-p", "no:cacheprovider"],
    env={**os.environ, "PYTHONPATH": "src"}, capture_output=True, text=True,
)
print(tests.stdout, tests.stderr)
