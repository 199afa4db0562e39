"""adapters.torch: a module that replaces nn.Conv2d, in layers and in whole networks."""

import copy
import pickle

import numpy as np
import pytest

import simdconv

torch = pytest.importorskip("torch")
from torch import nn  # noqa: E402

from simdconv.adapters.torch import Conv2d, replace_convs  # noqa: E402


@pytest.fixture(autouse=True)
def seeded():
    torch.manual_seed(3)


def images(*shape, dtype=torch.float32):
    return torch.randn(shape, dtype=dtype)


def assert_close(y, expected, tolerance=1e-4):
    assert y.shape == expected.shape
    assert y.dtype == expected.dtype
    assert torch.allclose(y, expected, atol=tolerance * float(expected.abs().max()))


class Residual(nn.Module):
    """ResNet's basic block."""

    def __init__(self, c_in, c_out, stride):
        super().__init__()
        self.conv1 = nn.Conv2d(c_in, c_out, 3, stride, 1, bias=False)
        self.bn1 = nn.BatchNorm2d(c_out)
        self.conv2 = nn.Conv2d(c_out, c_out, 3, 1, 1, bias=False)
        self.bn2 = nn.BatchNorm2d(c_out)
        self.downsample = None
        if stride != 1 or c_in != c_out:
            self.downsample = nn.Sequential(
                nn.Conv2d(c_in, c_out, 1, stride, bias=False), nn.BatchNorm2d(c_out)
            )

    def forward(self, x):
        identity = x if self.downsample is None else self.downsample(x)
        y = torch.relu(self.bn1(self.conv1(x)))
        return torch.relu(self.bn2(self.conv2(y)) + identity)


class InvertedResidual(nn.Module):
    """MobileNet's block: wide, depthwise, narrow."""

    def __init__(self, c_in, c_out, stride):
        super().__init__()
        wide = 4 * c_in
        self.shortcut = stride == 1 and c_in == c_out
        self.conv = nn.Sequential(
            nn.Conv2d(c_in, wide, 1, bias=False), nn.BatchNorm2d(wide), nn.ReLU6(),
            nn.Conv2d(wide, wide, 3, stride, 1, groups=wide, bias=False), nn.BatchNorm2d(wide),
            nn.ReLU6(), nn.Conv2d(wide, c_out, 1, bias=False), nn.BatchNorm2d(c_out),
        )  # fmt: skip

    def forward(self, x):
        return x + self.conv(x) if self.shortcut else self.conv(x)


def network():
    """A stem, both kinds of blocks, and what other networks have: atrous, grouped, circular."""
    model = nn.Sequential(
        nn.Conv2d(3, 16, 7, 2, 3, bias=False), nn.BatchNorm2d(16), nn.ReLU(),
        nn.MaxPool2d(3, 2, 1), Residual(16, 16, 1), Residual(16, 32, 2),
        InvertedResidual(32, 32, 1), InvertedResidual(32, 24, 2),
        nn.Conv2d(24, 24, 3, padding=2, dilation=2, groups=3), nn.ReLU(),
        nn.Conv2d(24, 32, (3, 5), padding="same", padding_mode="circular"),
        nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(32, 10),
    )  # fmt: skip
    for module in model.modules():  # as if it had been trained
        if isinstance(module, nn.BatchNorm2d):
            nn.init.uniform_(module.running_var, 0.5, 2)
            nn.init.normal_(module.running_mean, std=0.3)
    return model.eval()


@pytest.mark.parametrize("memory_format", [torch.contiguous_format, torch.channels_last])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_whole_network(memory_format, dtype):
    model = network().to(dtype).to(memory_format=memory_format)
    x = images(2, 3, 64, 48, dtype=dtype).to(memory_format=memory_format)
    with torch.inference_mode():
        expected = model(x)
        assert replace_convs(model) is model
        y = model(x)
        assert_close(y, expected, 1e-4 if dtype == torch.float32 else 1e-11)
        assert torch.equal(model(x), y)
    convs = [module for module in model.modules() if isinstance(module, nn.Conv2d)]
    assert len(convs) == 14
    assert {type(conv) for conv in convs} == {Conv2d}
    assert all(conv._prepared for conv in convs)


CASES = [
    {"stride": 2},
    {"stride": (2, 1), "padding": (0, 2)},
    {"padding": "same", "dilation": (2, 3)},
    {"padding": "valid", "bias": False},
    {"groups": 2},
    {"groups": 4, "bias": False},
    {"padding": 2, "padding_mode": "reflect"},
    {"padding": (1, 2), "padding_mode": "replicate"},
    {"padding": 3, "padding_mode": "circular", "stride": 3},
    {"padding": "same", "padding_mode": "reflect"},
    {"padding": 1, "padding_mode": "zeros", "dtype": torch.float64},
]


@pytest.mark.parametrize("keywords", CASES, ids=str)
@pytest.mark.parametrize("size", [3, (2, 4), 1])
def test_every_argument(keywords, size):
    conv = nn.Conv2d(4, 8, size, **keywords)
    new = Conv2d.from_torch(conv)
    for shape in ((2, 4, 9, 11), (4, 9, 11), (0, 4, 9, 11)):
        x = images(*shape, dtype=conv.weight.dtype)
        with torch.no_grad():
            assert new(x).shape == conv(x).shape
            if x.numel():
                assert_close(new(x), conv(x))
            assert "NCHW" in new._prepared


def test_channels_last_stays_so():
    conv, x = nn.Conv2d(4, 8, 3), images(2, 4, 9, 11).to(memory_format=torch.channels_last)
    new = Conv2d.from_torch(conv)
    with torch.no_grad():
        y = new(x)
        assert_close(y, conv(x))
        assert y.is_contiguous(memory_format=torch.channels_last)
        assert set(new._prepared) == {"NHWC"}
        assert_close(new(x[:, :, ::2]), conv(x[:, :, ::2]))


def test_filter_is_prepared_once_and_again_when_it_changes():
    conv = nn.Conv2d(4, 8, 3)
    new, x = Conv2d.from_torch(conv), images(1, 4, 9, 9)

    def check():
        with torch.no_grad():
            assert_close(new(x), nn.functional.conv2d(x, new.weight, new.bias))
        return new._prepared["NCHW"][1]

    first = check()
    assert check() is first
    with torch.no_grad():
        new.weight.mul_(2)
        second = check()
        new.bias.add_(1)
        third = check()
        new.load_state_dict(nn.Conv2d(4, 8, 3).state_dict())
        fourth = check()
    new.weight = nn.Parameter(torch.ones_like(new.weight))
    fifth = check()
    assert len({id(item) for item in (first, second, third, fourth, fifth)}) == 5
    new.weight.data.mul_(3)  # which PyTorch does not count
    new.repack()
    check()
    new.double()
    x = x.double()
    check()


def test_parameters_names_and_hooks_are_the_same():
    model = network()
    calls, names = [], list(model.state_dict())
    model[0].register_forward_hook(lambda *_: calls.append("hook"))
    weights = dict(model.named_parameters())
    replace_convs(model)
    assert list(model.state_dict()) == names
    assert all(parameter is weights[name] for name, parameter in model.named_parameters())
    with torch.inference_mode():
        model(images(1, 3, 32, 32))
    assert calls == ["hook"]


def test_shared_modules_stay_shared_and_subclasses_are_left_alone():
    class Special(nn.Conv2d):
        pass

    shared = nn.Conv2d(4, 4, 3)
    model = nn.Sequential(shared, nn.Sequential(shared), Special(4, 4, 3), nn.Conv1d(4, 4, 3))
    replace_convs(model)
    assert type(model[0]) is Conv2d
    assert model[0] is model[1][0]
    assert type(model[2]) is Special
    assert type(model[3]) is nn.Conv1d
    assert type(shared) is nn.Conv2d
    single = replace_convs(nn.Conv2d(4, 4, 3), algorithm="direct", backend="numpy")
    assert type(single) is Conv2d
    assert (single.backend, single.algorithm) == ("numpy", "direct")
    assert replace_convs(single) is single


def test_training_falls_back_to_torch():
    conv, x = nn.Conv2d(4, 8, 3), images(1, 4, 9, 9)
    new = Conv2d.from_torch(copy.deepcopy(conv))
    for module in (conv, new):
        module(x).square().sum().backward()
    assert not new._prepared
    assert_close(new.weight.grad, conv.weight.grad)
    optimizer = torch.optim.SGD(new.parameters(), 0.1)
    with torch.no_grad():
        before = new(x)
        optimizer.step()
        assert not torch.equal(new(x), before)
    assert_close(torch.func.vmap(new)(x[None]).detach(), new(x)[None].detach())
    with torch.no_grad():
        _, tangent = torch.func.jvp(new, (x,), (x,))
        assert_close(tangent + new.bias[:, None, None], new(x))


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.complex64])
def test_other_dtypes_fall_back_to_torch(dtype):
    conv = nn.Conv2d(4, 8, 3, dtype=dtype)
    new, x = Conv2d.from_torch(conv), images(1, 4, 9, 9).to(dtype)
    with torch.no_grad():
        assert torch.equal(new(x), conv(x))
    assert not new._prepared
    meta = new.to("meta")
    assert meta(x.to("meta")).device.type == "meta"


def test_what_torch_would_not_compute_in_this_dtype():
    conv, x = nn.Conv2d(4, 8, 3), images(1, 4, 9, 9)
    new = Conv2d.from_torch(conv)
    with torch.no_grad():
        with pytest.raises(RuntimeError):
            conv(x.double())
        with pytest.raises(RuntimeError):
            new(x.double())
        with torch.autocast("cpu", dtype=torch.bfloat16):
            assert new(x).dtype == conv(x).dtype == torch.bfloat16
        with pytest.raises(TypeError):
            new(x.numpy())
    assert not new._prepared


def test_writes_that_torch_does_not_count():
    x = images(1, 4, 9, 9)
    with torch.inference_mode():
        new = Conv2d(4, 8, 3)
        for _ in range(3):
            assert_close(new(x), nn.functional.conv2d(x, new.weight, new.bias))
            new.weight.mul_(-3)
    new = Conv2d(4, 8, 3)
    with torch.no_grad():
        for _ in range(8):  # addresses of freed weights come back
            new.weight.data = torch.randn(8, 4, 3, 3)
            assert_close(new(x), nn.functional.conv2d(x, new.weight, new.bias))
            new.weight.data = torch.randn(8, 4, 3, 3)


def test_tracing_with_fx():
    model = replace_convs(nn.Sequential(nn.Conv2d(4, 8, 3), nn.ReLU()))
    traced, x = torch.fx.symbolic_trace(model), images(1, 4, 9, 9)
    with torch.no_grad():
        assert_close(traced(x), model(x))


def test_errors_when_a_network_is_replaced():
    with pytest.raises(TypeError, match=r"model must be a torch\.nn\.Module; got str"):
        replace_convs("resnet")
    for model in (nn.Sequential(nn.Conv2d(1, 1, 1)), nn.Conv2d(1, 1, 1)):
        with pytest.raises(simdconv.BackendNotFoundError, match="nonesuch"):
            replace_convs(model, backend="nonesuch")
        with pytest.raises(ValueError, match="algorithm"):
            replace_convs(model, algorithm="nonesuch")


def test_errors_name_the_argument():
    new = Conv2d(4, 8, 3)
    with torch.no_grad():
        with pytest.raises(ValueError, match="c_in=5"):
            new(images(1, 5, 9, 9))
        with pytest.raises(ValueError, match="height"):
            new(images(1, 4, 2, 9))
        new.backend = "nonesuch"
        with pytest.raises(simdconv.BackendNotFoundError, match="nonesuch"):
            new(images(1, 4, 9, 9))


def test_copies_and_pickles():
    new, x = Conv2d(4, 8, 3, padding=1), images(1, 4, 9, 9)
    with torch.no_grad():
        y = new(x)
        for other in (copy.deepcopy(new), pickle.loads(pickle.dumps(new))):
            assert not other._prepared
            assert torch.equal(other(x), y)
            other.weight.zero_()
            assert torch.equal(new(x), y)


def test_threads_are_torchs_and_results_do_not_depend_on_them():
    new, x = Conv2d(4, 8, 3), images(2, 4, 19, 19)
    before = torch.get_num_threads()
    results = []
    try:
        for count in (1, 2):
            torch.set_num_threads(count)
            with torch.no_grad():
                results.append(new(x))
            assert new._prepared["NCHW"][1]._keywords["num_threads"] == count
    finally:
        torch.set_num_threads(before)
    assert torch.equal(*results)


def test_results_are_tensors_of_their_own():
    new, x = Conv2d(1, 1, 1, bias=False), images(1, 1, 9, 9)
    with torch.no_grad():
        first = new(x)
        copied = first.clone()
        new(x + 1)
        assert torch.equal(first, copied)
        assert not np.shares_memory(first.numpy(), x.numpy())
