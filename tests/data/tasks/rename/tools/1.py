# I look where it is used.
uses = grep(r"\bCacheTestMixin\b")
uses
