# I look at how the other caches are made.
import subprocess
print(subprocess.run(["grep", "-rnE", r"class \w+Cache\(|def l\w+_cache\(", "src", "--include=*.py"], capture_output=True, text=True).stdout)
print(subprocess.run(["find", ".", "-name", "test_l*.py"], capture_output=True, text=True).stdout)
lru = view("src/cachetools/__init__.py", pos="331", tokens=900)
decorators = view("src/cachetools/func.py", pos="62", tokens=300)
changes = view("CHANGELOG.rst", tokens=80)
