"""The View: the events that a model reads, in order, and where they may be cut. See `view` for the fold."""

from __future__ import annotations

from .entries import BoundaryRule, Summary
from .view import EnforcementWarning, View, ViewFold, Window
from .well_formed import Correction, Enforced

__all__ = ["BoundaryRule", "Correction", "Enforced", "EnforcementWarning", "Summary", "View", "ViewFold", "Window"]
