"""What the tests share: how many examples hypothesis makes, and the marks of borrowed suites."""

import os

from hypothesis import settings

# SIMDCONV_TEST_PROFILE=ci pytest tests/test_fuzz.py
EXAMPLES = {"quick": 150, "ci": 2000, "long": 100_000}
BORROWED_MARKS = ("skip_xp_backends", "xfail_xp_backends", "slow", "fail_slow", "xfail_on_32bit")

for name, count in EXAMPLES.items():
    settings.register_profile(
        name, max_examples=count, deadline=None, database=None, print_blob=True,
        derandomize=name == "quick",
    )  # fmt: skip
settings.load_profile(os.environ.get("SIMDCONV_TEST_PROFILE", "quick"))


def pytest_configure(config):
    """Register the marks of SciPy's test suite, which test_scipy.py imports."""
    for mark in BORROWED_MARKS:
        config.addinivalue_line("markers", f"{mark}: of SciPy's test suite")
