# I look at the function, and at what is tested of it.
cached = view("src/cachetools/__init__.py", pos="844", tokens=300)
print(grep("must be callable|must not be None"))
tests = view("tests/test_cached.py", pos="635", tokens=150)
changes = view("CHANGELOG.rst", tokens=80)
