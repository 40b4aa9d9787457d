# All of these are meant.
for path in sorted({use.path for use in uses}):
    edit(path, "CacheTestMixin", "CacheTests", count=None)
bash("PYTHONPATH=src python -m pytest -q -x -p no:cacheprovider")
