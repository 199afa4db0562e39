"""ONNX's Conv and ConvInteger: the node tests that the onnx package ships, and its reference."""

import importlib
import itertools

import numpy as np
import pytest

import simdconv
from simdconv import conv2d

onnx = pytest.importorskip("onnx", reason="onnx is not installed")

BACKENDS = [info.name for info in simdconv.list_backends() if info.available]
AUTO_PADS = {"SAME_UPPER": "same", "SAME_LOWER": "same_lower", "VALID": "valid"}
SEMANTICS = {"auto_pad", "dilations", "group", "kernel_shape", "pads", "strides"}


def shipped():
    """Every Conv and ConvInteger test that the package generates, of images and by one node."""
    from onnx.backend.test.case import node

    for module in ("conv", "convinteger"):  # collect_testcases() would generate all operators'
        importlib.import_module(f"{node.__name__}.{module}")
    found = {}
    for case in getattr(node, "_NodeTestCases", None) or node.collect_testcases():
        nodes = case.model.graph.node
        if len(nodes) == 1 and nodes[0].op_type in ("Conv", "ConvInteger"):
            found[case.name] = case
    return found


SHIPPED = shipped()


def attributes(node):
    """The attributes of a node, as Python values."""
    found = {item.name: onnx.helper.get_attribute_value(item) for item in node.attribute}
    assert set(found) <= SEMANTICS, found
    name = found.get("auto_pad", b"NOTSET")
    return {**found, "auto_pad": name.decode() if isinstance(name, bytes) else name}


def keywords_of(found):
    """What conv2d is told for the attributes of a node."""
    top, left, bottom, right = found.get("pads", (0, 0, 0, 0))
    padding = AUTO_PADS.get(found["auto_pad"], ((top, bottom), (left, right)))
    return {
        "stride": tuple(found.get("strides", (1, 1))),
        "dilation": tuple(found.get("dilations", (1, 1))),
        "groups": found.get("group", 1),
        "padding": padding,
    }


def without_zero_points(inputs):
    """Integers minus their zero points, in 32 bits."""
    x, w, *points = inputs
    points = [np.int32(0) if point is None else point.astype(np.int32) for point in points]
    points += [np.int32(0)] * (2 - len(points))
    w_point = points[1].reshape(-1, 1, 1, 1) if np.ndim(points[1]) == 1 else points[1]
    return x.astype(np.int32) - points[0], w.astype(np.int32) - w_point


def test_package_ships_the_cases():
    names = {case.model.graph.node[0].op_type for case in SHIPPED.values()}
    assert names == {"Conv", "ConvInteger"}
    assert len(SHIPPED) >= 8


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("name", SHIPPED)
def test_shipped_case(name, backend):
    case = SHIPPED[name]
    node = case.model.graph.node[0]
    keywords = keywords_of(attributes(node))
    for inputs, outputs in case.data_sets:
        if node.op_type == "ConvInteger":
            # 32-bit operands are not the simd backend's: the fall-through is part of the test
            x, w = without_zero_points(inputs)
            with simdconv.use_backend(backend):
                y = conv2d(x, w, **keywords)
            assert np.array_equal(y, outputs[0])
        else:
            y = conv2d(*inputs, backend=backend, **keywords)
            assert y.dtype == outputs[0].dtype
            assert np.array_equal(y, outputs[0])  # whole numbers, all of them


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("auto_pad", ["NOTSET", *AUTO_PADS])
def test_against_the_reference_evaluator(auto_pad, backend):
    """Every auto_pad with strides, dilations, kernels of odd and even size, and groups."""
    from onnx.reference.ops.op_conv import Conv

    run = Conv.eval
    rng = np.random.default_rng(7)
    grid = itertools.product(
        ((1, 1), (2, 1), (3, 2)), ((1, 1), (2, 3)), ((3, 2), (1, 4)), (1, 2, 4)
    )
    for strides, dilations, kernel, group in grid:
        x = rng.integers(-4, 5, (2, 4, 11, 13)).astype(np.float32)
        w = rng.integers(-4, 5, (8, 4 // group, *kernel)).astype(np.float32)
        bias = rng.integers(-4, 5, 8).astype(np.float32)
        found = {"auto_pad": auto_pad, "strides": strides, "dilations": dilations, "group": group}
        if auto_pad == "NOTSET":
            found["pads"] = (1, 0, 2, 3)
        expected = run(x, w, bias, **found)
        y = conv2d(x, w, bias, backend=backend, **keywords_of(found))
        assert np.array_equal(y, expected), found


@pytest.mark.parametrize("layout", ["NCHW", "NHWC", "CHWN", "CHWN8"])
def test_shipped_cases_in_every_layout(layout):
    for case in SHIPPED.values():
        node = case.model.graph.node[0]
        if node.op_type != "Conv":
            continue
        (x, *rest), outputs = case.data_sets[0]
        image = simdconv.to_layout(x, "NCHW", layout)
        y = conv2d(image, *rest, layout=layout, **keywords_of(attributes(node)))
        assert np.array_equal(simdconv.to_layout(y, layout, "NCHW", n=len(x)), outputs[0])
