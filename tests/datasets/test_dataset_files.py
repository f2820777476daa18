"""Files of data sets: read whole or refused, and verified by their values."""

from __future__ import annotations

import io

import numpy as np
import pytest
from support.served import ARRAYS

from torchnpn import datasets
from torchnpn.datasets import insurance, store


def test_a_damaged_file_is_refused(tmp_path):
    path = tmp_path / "a.npz"
    store.write(path, ARRAYS)
    whole = path.read_bytes()
    refused = 0
    for position in range(len(whole)):
        path.write_bytes(whole[:position] + bytes([whole[position] ^ 0xFF]) + whole[position + 1 :])
        try:
            arrays = store.read(path)
        except ValueError as error:
            refused += "is damaged" in str(error)
        else:  # a byte that does not matter, or an entry is hidden; values never change
            for name, array in arrays.items():
                np.testing.assert_array_equal(array, ARRAYS[name], strict=True)
    assert refused > len(whole) / 2
    for length in range(len(whole)):
        path.write_bytes(whole[:length])
        with pytest.raises(ValueError, match="is damaged"):
            store.read(path)


def foreign(arrays=None, array=None) -> bytes:
    file = io.BytesIO()
    if arrays is not None:
        np.savez(file, **arrays)
    else:
        np.save(file, array)
    return file.getvalue()


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (foreign(array=ARRAYS["X"]), "is damaged, or no .npz file"),
        (foreign({**ARRAYS, "X": np.array([{}, []], dtype=object)}), "plain arrays.*allow_pickle"),
        (foreign({"X": ARRAYS["X"]}), "not the file of 'tiny' .*'y'.*it holds X"),
        (foreign({**ARRAYS, "X": ARRAYS["X"].T}), r"5 rows of 2 features.*X of shape \(2, 5\)"),
        (foreign({**ARRAYS, "y": ARRAYS["y"][1:]}), r"y of shape \(4,\)"),
    ],
)
def test_another_file_is_refused(server, cache, content, words):
    path = cache / "uci_regression" / "tiny.npz"
    path.parent.mkdir(parents=True)
    path.write_bytes(content)
    with pytest.raises(ValueError, match=words) as caught:
        datasets.load("tiny")
    assert "fetch it anew" in str(caught.value)


def test_verify_looks_at_the_values(server, cache):
    path = cache / "uci_regression" / "tiny.npz"
    assert datasets.verify("tiny") == [("tiny", "absent")]
    datasets.fetch("tiny")
    assert datasets.verify("tiny") == [("tiny", "ok")]
    path.write_bytes(foreign(dict(reversed(ARRAYS.items()))))  # packed in another way
    assert datasets.verify("tiny") == [("tiny", "ok")]
    path.write_bytes(foreign({**ARRAYS, "y": np.nextafter(ARRAYS["y"], np.inf)}))
    assert datasets.verify("tiny") == [("tiny", "different")]
    path.write_bytes(b"nothing of the kind")
    assert datasets.verify("tiny") == [("tiny", "unreadable")]
    assert [name for name, _ in datasets.verify()] == [info.name for info in datasets.available()]


@pytest.mark.parametrize(
    "other",
    [
        {"a": np.arange(7)},
        {"a": np.arange(6, dtype=np.int32)},
        {"a": np.arange(6).reshape(2, 3)},
        {"b": np.arange(6)},
        {"a": np.arange(6), "b": np.zeros(0)},
        {"a": np.arange(6).astype(float)},
    ],
)
def test_digest_sees_names_types_shapes_and_values(other):
    assert store.digest(other) != store.digest({"a": np.arange(6)})


def test_digest_does_not_see_memory():
    a = np.arange(6.0).reshape(2, 3)
    assert store.digest({"a": np.asfortranarray(a)}) == store.digest({"a": a.astype(">f8")}) == store.digest({"a": a})


def test_motor_insurance_keeps_every_category():
    generator = np.random.default_rng(0)
    levels = {
        "VehAge": [b"old cars", b"oldest cars", b"young cars", b"youngest cars"],
        "VehBody": [b"Bus", b"Sedan"],
        "Gender": [b"Female", b"Male"],
        "DrivAge": sorted(name.encode() for name in insurance.ORDER["driver_age"]),
    }
    codes = {name: generator.integers(len(names), size=30).astype(np.uint8) for name, names in levels.items()}
    numbers = {name: generator.random(30) for name in ("Exposure", "VehValue", "ClaimAmount")}
    claims = {"ClaimNb": generator.integers(3, size=30).astype(np.uint8)}
    table = insurance.read(
        numbers | claims | codes | {f"{key}_levels": np.array(names) for key, names in levels.items()}
    )
    assert table.X.dtype == table.y.dtype == np.float64
    np.testing.assert_array_equal(table.X[:, :2].T, [numbers["Exposure"], numbers["VehValue"]])
    for column, (ours, theirs) in enumerate(insurance.CATEGORIES.items(), start=2):
        assert table.feature_names[column] == ours
        names = [table.categories[ours][int(code)].encode() for code in table.X[:, column]]
        assert names == [levels[theirs][code] for code in codes[theirs]]
    assert table.categories["vehicle_age"] == ("youngest cars", "young cars", "old cars", "oldest cars")
    np.testing.assert_array_equal(table.targets["counts"], claims["ClaimNb"])
    np.testing.assert_array_equal(table.targets["amounts"], numbers["ClaimAmount"])
