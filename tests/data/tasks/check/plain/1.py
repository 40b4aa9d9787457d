# I look at the function, and at what is tested of it.
import subprocess
cached = view("src/cachetools/__init__.py", pos="844", tokens=300)
print(subprocess.run(["grep", "-rnE", "must be callable|must not be None", "."], capture_output=True, text=True).stdout)
tests = view("tests/test_cached.py", pos="635", tokens=150)
changes = view("CHANGELOG.rst", tokens=80)
