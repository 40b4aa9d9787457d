"""The View: what the LLM will be given, in order, and where it may be cut. See `view` for the fold itself."""

from __future__ import annotations

from .enforcement import Correction, Enforced
from .entries import Summary
from .fold import EnforcementWarning, ViewFold
from .rule import BoundaryRule
from .view import View
from .window import Window

__all__ = ["BoundaryRule", "Correction", "Enforced", "EnforcementWarning", "Summary", "View", "ViewFold", "Window"]
