# I look at how the other caches are made.
print(grep(r"class \w+Cache\(|def l\w+_cache\(", "src", glob="*.py"))
print(find("test_l*.py"))
lru = view("src/cachetools/__init__.py", pos="331", tokens=900)
decorators = view("src/cachetools/func.py", pos="62", tokens=300)
changes = view("CHANGELOG.rst", tokens=80)
