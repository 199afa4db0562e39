"""What the author of a backend needs, in one place; docs/backends.md shows how to use it."""

from simdconv._errors import BackendLoadError, BackendNotImplementedError
from simdconv._layout import chw_image, weights_to
from simdconv._spec import Conv2dSpec, TransformSpec
from simdconv.backends._base import (
    API_VERSION,
    Backend,
    Candidate,
    Kernel,
    PackedFilter,
    Plan,
    batched_view,
    check_limit,
    contiguous_out,
    dtype_code,
    native_contiguous,
)
from simdconv.backends.numpy import activate

__all__ = [
    "API_VERSION",
    "Backend",
    "BackendLoadError",
    "BackendNotImplementedError",
    "Candidate",
    "Conv2dSpec",
    "Kernel",
    "PackedFilter",
    "Plan",
    "TransformSpec",
    "activate",
    "batched_view",
    "check_limit",
    "chw_image",
    "contiguous_out",
    "dtype_code",
    "native_contiguous",
    "weights_to",
]
