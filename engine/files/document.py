"""Documents: what views are windows on. One per path, shared by all its views, which looks at its file when asked.

Owns the newest revision seen of a path. Knows who answers looks, no node. Called by handles when content is wanted, and
at ticks.
"""

from __future__ import annotations

from weakref import WeakValueDictionary

from .found import Found
from .looks import Looks
from .revision import Revision, from_text, without_content


class Document:
    """The content at one path, or a fixed text where `path` is None.

    With both, it is that text until somebody looks at the file: what an editor holds, which may be on no disk yet.
    `current` is the newest revision seen; `outside` says that the path is in no directory of the workspace.
    """

    __slots__ = ("__weakref__", "_checked", "_found", "_looks", "current", "outside", "path", "title")

    def __init__(
        self,
        path: str | None,
        title: str,
        looks: Looks,
        current: Revision,
        *,
        outside: bool = False,
    ) -> None:
        self.path = path
        self.title = title
        self.outside = outside
        self._looks = looks
        self._found: Found | None = None
        self._checked = -1
        self.current = current

    def refresh(self) -> Revision:
        """Looks at the file now and returns what is current. Never raises OSError."""
        if self.path is None:
            return self.current
        return self._hold(self._looks.look(self.path, self.title, self._found))

    def peek(self) -> Revision:
        """What the file holds now, for whoever only looks: what is current stays so, and nothing is recorded.

        A large text is not read for this. Where its stamp may not last, only another size counts.
        """
        if self.path is None:
            return self.current
        found, known = self._looks.peek(self.path, self.title, self._found).revision, self._found
        is_large = (found.state, self.current.state) == ("too large", "paged")
        if is_large and (known is None or known.stamp is None) and found.size == self.current.size:
            return self.current
        return found

    def bring(self, data: bytes) -> Revision:
        """Takes what somebody else has read of the file for its content now, and returns what is current."""
        if self.path is None:
            return self.current
        return self._hold(self._looks.bring(self.path, self.title, self._found, data))

    def _hold(self, found: Found) -> Revision:
        if found is not self._found:
            self._found = found
            if not found.revision.same_as(self.current):
                self.current = found.revision
        return self.current

    def refresh_at_tick(self) -> Revision:
        """`refresh`, but at most once per tick, so that many views of a document cost one look."""
        tick = self._looks.tick
        if self._checked == tick:
            return self.current
        self._checked = tick
        if self.path is None:
            return self.current
        return self._hold(self._looks.look(self.path, self.title, self._found, at_tick=True))


_UNSEEN = without_content("missing", "")


class Documents:
    """All documents that some handle holds, by absolute path. A document is dropped with its last handle."""

    def __init__(self, looks: Looks) -> None:
        self._looks = looks
        self._by_path: WeakValueDictionary[str, Document] = WeakValueDictionary()

    def at(self, path: str, title: str, *, outside: bool) -> Document:
        """The document at an absolute path, looked at just now."""
        document = self.held(path, title, _UNSEEN, outside=outside)
        document.refresh()
        return document

    def held(self, path: str, title: str, current: Revision, *, outside: bool) -> Document:
        """The document at an absolute path, as it is known; without looking at it, one at `current` where none is."""
        known = self._by_path.get(path)
        if known is None:
            known = self._by_path[path] = Document(path, title, self._looks, current, outside=outside)
        return known

    def of_text(
        self, text: str, title: str, path: str | None = None, *, first_line: int = 1, outside: bool = False
    ) -> Document:
        """A document that is this text: for good, or where it has a path until the file there is looked at.

        Not shared with other views of that path, which show what is on disk. `first_line` is the number of its first
        line, where it is a part of the file.
        """
        return Document(path, title, self._looks, from_text(text, first_line), outside=outside)
