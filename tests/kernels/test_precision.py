"""How precise matrix products on a GPU are: for a while, or as torch's own switch says."""

from __future__ import annotations

import pytest
import torch

from torchnpn import kernels
from torchnpn.kernels.precision import current


def test_precision_holds_for_a_while_and_else_torchs_switch_decides(monkeypatch):
    assert current() == "float32"
    with kernels.precision("fast"):
        assert current() == "fast"
        with kernels.precision("float32"):
            assert current() == "float32"
        assert current() == "fast"
    with pytest.raises(KeyError), kernels.precision("fast"):
        raise KeyError
    assert current() == "float32"
    before = torch.get_float32_matmul_precision()
    try:
        for name, expected in {"high": "fast", "medium": "fast", "highest": "float32"}.items():
            torch.set_float32_matmul_precision(name)
            assert current() == expected
    finally:
        torch.set_float32_matmul_precision(before)


@pytest.mark.parametrize("name", ["float16", "", "FAST"])
def test_an_unknown_precision_is_refused(name):
    with pytest.raises(ValueError, match=r"precision expects one of fast, float32, got"), kernels.precision(name):
        pass
