"""Answers lines of JSON with seconds: a projection of many handles and groups, as a worker makes it.

`["make", handles, groups]` makes them, of texts of a screenful each; `["project"]` renders and counts a tail within
16,000 tokens, after one of the handles has moved; the move is outside of the clock.
"""

from __future__ import annotations

import json
import sys
import tempfile
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2]))

from engine.files.tails import FeedItem, News
from tests.support.boards import Desk

NEWS = News(items=tuple(FeedItem(f"view-1.{number}", "2 lines changed\n-a\n+b") for number in range(1, 30)))


def main() -> None:
    with tempfile.TemporaryDirectory() as directory:
        desk = Desk(Path(directory))
        for number, line in enumerate(sys.stdin):
            action, *arguments = json.loads(line)
            if action == "project":
                desk.run(f"views[{number}].SetPos('{number + 2}:0')")
            started = time.perf_counter()
            if action == "make":
                handles, groups = arguments
                desk.run(
                    f"text = 'def f(x):\\n    return x\\n' * 30\n"
                    f"views = [view(text=text, title=f'v{{n}}') for n in range({handles})]\n"
                    f"for n, v in enumerate(views): globals()[f'h{{n}}'] = v\n"
                    f"for n in range({groups}): globals()[f'g{{n}}'] = group(*views[n * 20:n * 20 + 20], tokens=300)"
                )
            else:
                desk.board.tail(desk.namespace, 16_000, NEWS)
            print(time.perf_counter() - started, flush=True)


main()
