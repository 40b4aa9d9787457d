"""The View: what the LLM will be given, in order, and where it may be cut. See `view` for the fold itself."""

from __future__ import annotations

from .entries import BoundaryRule, Summary
from .view import EnforcementWarning, View, ViewFold, Window
from .well_formed import Correction, Enforced

__all__ = ["BoundaryRule", "Correction", "Enforced", "EnforcementWarning", "Summary", "View", "ViewFold", "Window"]
