"""The exceptions simdconv raises on top of Python's own."""

from collections.abc import Mapping

__all__ = [
    "BackendLoadError",
    "BackendNotFoundError",
    "BackendNotImplementedError",
    "LayoutError",
    "ShapeError",
]


class ShapeError(ValueError):
    """Sizes that do not fit together, or that are too large to compute with."""


class LayoutError(ValueError):
    """An unknown layout, or an array that cannot be in the layout that was named."""


class BackendNotFoundError(LookupError):
    """A backend name that nobody registered."""


class BackendLoadError(ImportError):
    """A registered backend that cannot be loaded on this machine."""


class BackendNotImplementedError(NotImplementedError):
    """No backend that was allowed to run the call can run it.

    Attributes
    ----------
    reasons : dict
        Why each backend that was asked declined, by its name.
    """

    def __init__(self, message: str, reasons: Mapping[str, str] | None = None) -> None:
        super().__init__(message)
        self.reasons = dict(reasons or {})

    def __reduce__(self) -> tuple[type, tuple[str, dict[str, str]]]:
        return type(self), (str(self), self.reasons)
