"""The page of a sweep."""

from .page import Report, write_report

__all__ = ["Report", "write_report"]
