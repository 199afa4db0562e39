"""What the tests share: how many examples hypothesis makes, and the marks of borrowed suites."""

import os

import pytest
from hypothesis import settings

import simdconv
from simdconv import backends
from simdconv.backends._base import Plan

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
    """Register our mark, and those of SciPy's test suite, which test_scipy.py imports."""
    config.addinivalue_line("markers", "large: takes gigabytes of memory, or seconds")
    for mark in BORROWED_MARKS:
        config.addinivalue_line("markers", f"{mark}: of SciPy's test suite")


class Fake:
    """A backend that fills the result with one number."""

    api_version = 1

    def __init__(self, name, value=7, reason=None):
        self.name, self.value, self.reason, self.calls = name, value, reason, 0

    def declines(self, spec):
        return self.reason

    def plan(self, spec):
        return Plan(self.name, "direct", spec.layout, f"direct-{self.name}", 0)

    def conv2d(self, spec, x, w, bias, out):
        self.calls += 1
        out[...] = self.value

    def transform(self, spec, x, out):
        out[...] = self.value


@pytest.fixture
def clean_registry():
    """Backends and choices as they were."""
    before = dict(backends._entries)
    yield
    simdconv.set_backend(None)
    backends._entries.clear()
    backends._entries.update(before)
    backends.generation += 1


@pytest.fixture
def seven(clean_registry):
    fake = Fake("seven")
    simdconv.register_backend("seven", lambda: fake)
    return fake


@pytest.fixture
def eight(clean_registry):
    fake = Fake("eight", 8)
    simdconv.register_backend("eight", lambda: fake, priority=50)
    return fake


@pytest.fixture
def fake_backend():
    """The class, for tests that make their own."""
    return Fake
