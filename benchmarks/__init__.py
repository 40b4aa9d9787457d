"""The bars, measured beside their peers in the same run: `make bench`. One module for each suite, with `run`.

`bench_*` measure and judge; `programs` and `peers` hold what runs in an interpreter of its own; `report` keeps results.
"""
