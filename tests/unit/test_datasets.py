"""Data sets in all forms that they are passed around in, and files that are damaged or hostile."""

import gzip
import io
import os
import pickle
import struct
import tarfile
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image

from anybound.errors import AnyboundError, InvalidConfig, InvalidInput, MissingDependency
from anybound.training.datasets.dataset import Dataset
from anybound.training.datasets.pickled import read_pickled
from anybound.training.datasets.sources import read_dataset

RANDOM = np.random.default_rng(0)
SHAPES = {"cifar10": (3, 32, 32), "mnist": (1, 28, 28)}
NAMES = ["airplane", "automobile", "bird", "cat", "deer", "dog", "frog", "horse", "ship", "truck"]

Arrays = tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]


def arrays(name: str) -> Arrays:
    """20 images to train on and 10 to test on, labels in order, so that any form keeps the order."""
    random, shape = np.random.default_rng(1), SHAPES[name]
    images = [random.integers(0, 256, (count, *shape), dtype=np.uint8) for count in (20, 10)]
    return images[0], np.arange(20) // 2, images[1], np.arange(10)


def batches(name: str) -> dict[str, tuple[np.ndarray, np.ndarray]]:
    """As CIFAR-10 is cut."""
    train, train_labels, test, test_labels = arrays(name)
    parts = {
        f"data_batch_{i + 1}": (train[4 * i : 4 * i + 4], train_labels[4 * i : 4 * i + 4])
        for i in range(5)
    }
    return {**parts, "test_batch": (test, test_labels)}


def python_two(images: np.ndarray, labels: np.ndarray) -> bytes:
    """A batch as Python 2 has written the official ones: protocol 2, strings of bytes."""

    def text(value: bytes) -> bytes:
        short = len(value) < 256
        return (
            b"U" + bytes([len(value)]) if short else b"T" + struct.pack("<i", len(value))
        ) + value

    count = struct.pack("<H", len(images))
    shape = b"M" + count + b"M" + struct.pack("<H", 3072) + b"\x86"
    dtype = b"cnumpy\ndtype\nq\x05" + text(b"u1") + b"K\x00K\x01\x87Rq\x06"
    dtype += b"(K\x03" + text(b"|") + b"NNNJ\xff\xff\xff\xffJ\xff\xff\xff\xffK\x00tb"
    array = (
        b"cnumpy.core.multiarray\n_reconstruct\ncnumpy\nndarray\nK\x00\x85" + text(b"b") + b"\x87R"
    )
    array += b"(K\x01" + shape + dtype + b"\x89" + text(images.tobytes()) + b"tb"
    numbers = b"](" + b"".join(b"K" + bytes([label]) for label in labels.tolist()) + b"e"
    return b"\x80\x02}q\x01(" + text(b"data") + array + text(b"labels") + numbers + b"u."


def pickled(
    protocol: int, key: Callable[[str], object] = str.encode
) -> Callable[[Path, str], None]:
    def write(folder: Path, name: str) -> None:
        for batch, (images, labels) in batches(name).items():
            rows = images.reshape(len(images), -1)
            content = {key("data"): rows, key("labels"): labels.tolist(), key("batch_label"): b"x"}
            (folder / batch).write_bytes(pickle.dumps(content, protocol))

    return write


def official(folder: Path, name: str) -> None:
    (folder / "cifar-10-batches-py").mkdir()
    for batch, content in batches(name).items():
        (folder / "cifar-10-batches-py" / batch).write_bytes(python_two(*content))


def archive(folder: Path, name: str) -> None:
    with tarfile.open(folder / "cifar-10-python.tar.gz", "w:gz") as tar:
        for batch, content in batches(name).items():
            data = python_two(*content)
            member = tarfile.TarInfo(f"cifar-10-batches-py/{batch}")
            member.size = len(data)
            tar.addfile(member, io.BytesIO(data))


def binary(folder: Path, name: str) -> None:
    for batch, (images, labels) in batches(name).items():
        rows = np.concatenate(
            [labels[:, None].astype(np.uint8), images.reshape(len(images), -1)], 1
        )
        (folder / f"{batch}.bin").write_bytes(rows.tobytes())


def npz(folder: Path, name: str) -> None:
    """As Keras has them: channels last, or none; labels in a column."""
    train, train_labels, test, test_labels = arrays(name)
    last = [x.transpose(0, 2, 3, 1) if name == "cifar10" else x[:, 0] for x in (train, test)]
    np.savez(
        folder / "images.npz",
        x_train=last[0],
        y_train=train_labels[:, None],
        x_test=last[1],
        y_test=test_labels[:, None],
    )


def floats(folder: Path, name: str) -> None:
    train, train_labels, test, test_labels = arrays(name)
    np.savez_compressed(
        folder / "images.npz",
        train_images=(train / 255).astype(np.float32),
        train_labels=train_labels,
        test_images=(test / 255).astype(np.float32),
        test_labels=test_labels,
    )


def pngs(folder: Path, name: str, split: tuple[str, str] = ("train", "test")) -> None:
    train, train_labels, test, test_labels = arrays(name)
    for part, images, labels in ((split[0], train, train_labels), (split[1], test, test_labels)):
        for i, (image, label) in enumerate(zip(images, labels.tolist(), strict=True)):
            own = NAMES[label] if name == "cifar10" else str(label)
            (folder / part / own).mkdir(parents=True, exist_ok=True)
            levels = image.transpose(1, 2, 0) if name == "cifar10" else image[0]
            Image.fromarray(levels).save(folder / part / own / f"{i:05}.png")


def idx(suffix: str = "", dot: str = "-") -> Callable[[Path, str], None]:
    def write(folder: Path, name: str) -> None:
        train, train_labels, test, test_labels = arrays(name)
        for part, images, labels in (("train", train, train_labels), ("t10k", test, test_labels)):
            pixels = struct.pack(">4B3I", 0, 0, 8, 3, len(images), 28, 28) + images.tobytes()
            numbers = (
                struct.pack(">4BI", 0, 0, 8, 1, len(labels)) + labels.astype(np.uint8).tobytes()
            )
            for kind, content in ((f"images{dot}idx3", pixels), (f"labels{dot}idx1", numbers)):
                packed = gzip.compress(content) if suffix else content
                (folder / f"{part}-{kind}-ubyte{suffix}").write_bytes(packed)

    return write


FORMS: dict[tuple[str, str], Callable[[Path, str], None]] = {
    ("cifar10", "official"): official,
    ("cifar10", "archive"): archive,
    **{("cifar10", f"protocol {p}"): pickled(p) for p in range(6)},
    ("cifar10", "keys of text"): pickled(4, key=str),
    ("cifar10", "binary"): binary,
    ("cifar10", "npz"): npz,
    ("cifar10", "npz of floats"): floats,
    ("cifar10", "png"): pngs,
    ("mnist", "idx"): idx(),
    ("mnist", "idx.gz"): idx(".gz"),
    ("mnist", "idx with a dot"): idx(dot="."),
    ("mnist", "npz"): npz,
    ("mnist", "npz of floats"): floats,
    ("mnist", "png"): pngs,
    ("mnist", "training and testing"): lambda f, n: pngs(f, n, ("training", "testing")),
}


@pytest.mark.parametrize(("name", "form"), FORMS)
def test_every_form_gives_the_same_images(name: str, form: str, tmp_path: Path) -> None:
    FORMS[name, form](tmp_path, name)
    inside = list(tmp_path.iterdir())
    place = inside[0] if len(inside) == 1 and inside[0].is_file() else tmp_path
    dataset = read_dataset(name, str(place))
    train, train_labels, test, test_labels = arrays(name)
    for split, images, labels in (
        (dataset.train, train, train_labels),
        (dataset.test, test, test_labels),
    ):
        assert torch.equal(split.images(slice(None)), torch.from_numpy(images).float() / 255)
        assert split.labels.tolist() == labels.tolist()
    assert (dataset.shape, dataset.classes) == (SHAPES[name], 10)


def test_the_digits_are_offline() -> None:
    dataset = read_dataset("digits", None)
    assert (len(dataset.train), len(dataset.test), dataset.shape) == (1437, 360, (1, 8, 8))
    assert 0 == dataset.test.pixels.min() < dataset.test.pixels.max() == 1


def test_images_to_test_on_alone(tmp_path: Path) -> None:
    """As the first hundred test images are kept for properties."""
    _, _, test, labels = arrays("cifar10")
    np.savez(tmp_path / "first.npz", images=test, labels=labels)
    dataset = read_dataset("cifar10", str(tmp_path / "first.npz"))
    assert (len(dataset.train), len(dataset.test)) == (0, 10)


@pytest.mark.corpus
def test_the_first_hundred_test_images() -> None:
    folder = os.environ.get("ANYBOUND_BENCHMARKS")
    if folder is None:
        pytest.skip("ANYBOUND_BENCHMARKS names no folder")
    path = Path(folder) / "paper" / "cifar10_test_first100.npz"
    dataset = read_dataset("cifar10", str(path))
    assert (len(dataset.train), len(dataset.test)) == (0, 100)
    assert dataset.test.labels[:4].tolist() == [3, 8, 8, 0]


class Hostile:
    """Makes a file when it is unpickled."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def __reduce__(self) -> tuple[object, ...]:
        return os.mkdir, (str(self.path),)


@pytest.mark.parametrize("protocol", range(6))
def test_a_hostile_pickle_is_refused_and_not_run(protocol: int, tmp_path: Path) -> None:
    made = tmp_path / "made"
    content = pickle.dumps({b"data": Hostile(made), b"labels": []}, protocol)
    (tmp_path / "data_batch_1").write_bytes(content)
    with pytest.raises(InvalidInput, match=r"data_batch_1: refused: a call of (posix|nt)\.mkdir"):
        read_dataset("cifar10", str(tmp_path))
    assert not made.exists()


NESTED = b"\x80\x02" + b")" + b"\x85" * 400_000
PROGRAMS = {
    "object array": pickle.dumps(np.array([Hostile(Path("x"))], dtype=object)),
    "an instance": b"(icollections\nOrderedDict\n.",
    "an object": b"(ccollections\nOrderedDict\no.",
    "a new object": b"\x80\x02ccollections\nOrderedDict\n)\x81.",
    "an extension": b"\x80\x02\x82\x01.",
    "a persistent one": b"Pfile\n.",
    "a state for a name": b"cos\nsystem\n(S'__code__'\nK\x01db.",
    "a call of a number": b"K\x01)R.",
    "codecs": b"c_codecs\nencode\n(X\x01\0\0\0aX\x03\0\0\0hex\x74R.",
    "a deep key": NESTED + b"K\x01}" + b"q\x00" + b".",
    "a deep key in a dictionary": b"\x80\x02}" + NESTED[2:] + b"K\x01s.",
    "an endless shape": pickle.dumps(np.zeros(4, np.uint8), 2).replace(
        b"K\x04\x85", b"J\xff\xff\xff\x7f\x85"
    ),
    "a negative shape": pickle.dumps(np.zeros(4, np.uint8), 2).replace(
        b"K\x04\x85", b"J\xff\xff\xff\xff\x85"
    ),
    "records": pickle.dumps(np.zeros(2, [("a", "u1")])),
    "text": b"hello",
    "nothing": b"",
    "no value": b"\x80\x02.",
    "two values": b"\x80\x02K\x01K\x02.",
    "no memo": b"\x80\x02h\x07.",
    "no stack": b"\x80\x02\x87.",
}


@pytest.mark.parametrize("program", PROGRAMS)
def test_only_plain_data_is_read(program: str) -> None:
    with pytest.raises(InvalidInput, match=r"^here: (refused|truncated or damaged)"):
        read_pickled(PROGRAMS[program], "here")


def test_a_pickle_cut_anywhere_is_refused() -> None:
    content = pickle.dumps(
        {"data": np.arange(6, dtype=">i4").reshape(2, 3), "labels": [1, True]}, 4
    )
    found = read_pickled(content, "here")
    assert found["data"].tolist() == [[0, 1, 2], [3, 4, 5]]
    for end in range(len(content)):
        with pytest.raises(InvalidInput):
            read_pickled(content[:end], "here")


@pytest.mark.filterwarnings("ignore:invalid escape sequence")  # of pickletools
def test_a_spoilt_pickle_is_data_or_an_error() -> None:
    content = bytearray(pickle.dumps({"data": np.zeros((2, 3), np.uint8), "labels": [1, 2]}, 2))
    for at in range(len(content)):
        for value in RANDOM.integers(0, 256, 12).tolist():
            spoilt = bytes(content[:at]) + bytes([value]) + bytes(content[at + 1 :])
            try:
                read_pickled(spoilt, "here")
            except InvalidInput:
                continue


def spoil(
    form: str, name: str, file: str, change: Callable[[bytes], bytes]
) -> Callable[[Path], None]:
    def write(folder: Path) -> None:
        FORMS[name, form](folder, name)
        path = folder / file
        path.write_bytes(change(path.read_bytes()))

    return write


def saved(**given: object) -> Callable[[Path], None]:
    return lambda folder: np.savez(folder / "images.npz", **given)  # type: ignore[arg-type]


def batch(content: object) -> Callable[[Path], None]:
    return lambda folder: (folder / "test_batch").write_bytes(pickle.dumps(content)) and None


def png(path: str, size: tuple[int, int]) -> Callable[[Path], None]:
    def write(folder: Path) -> None:
        (folder / path).parent.mkdir(parents=True)
        Image.new("RGB", size).save(folder / path)

    return write


def one_missing(folder: Path) -> None:
    """Batches as large as the official ones, all but the third."""
    rows = np.zeros((10_000, 3073), np.uint8).tobytes()
    for name in ("data_batch_1", "data_batch_2", "data_batch_4", "data_batch_5", "test_batch"):
        (folder / f"{name}.bin").write_bytes(rows)


IMAGES = np.zeros((2, 32, 32, 3), np.uint8)
BAD: dict[tuple[str, str], tuple[Callable[[Path], object], str]] = {
    ("cifar10", "empty folder"): (lambda _: None, "no CIFAR-10 found.*https://www.cs.toronto.edu"),
    ("mnist", "empty folder"): (lambda _: None, "no MNIST found.*http://yann.lecun.com"),
    ("cifar10", "cut binary"): (
        spoil("binary", "cifar10", "data_batch_2.bin", lambda b: b[:-1]),
        r"data_batch_2.bin: has 12291 bytes; expected a multiple of 3073",
    ),
    ("cifar10", "empty binary"): (
        spoil("binary", "cifar10", "test_batch.bin", lambda _: b""),
        "test_batch.bin: has 0 bytes",
    ),
    ("cifar10", "wrong label"): (
        spoil("binary", "cifar10", "test_batch.bin", lambda b: b"\x0a" + b[1:]),
        "test_batch.bin: label 10; expected 0 to 9",
    ),
    ("cifar10", "cut pickle"): (
        spoil("protocol 2", "cifar10", "data_batch_5", lambda b: b[:5000]),
        "data_batch_5: truncated or damaged pickle",
    ),
    ("cifar10", "missing batch"): (one_missing, "data_batch_3.bin is missing"),
    ("cifar10", "no labels"): (batch({"data": IMAGES}), "test_batch: has no 'labels'"),
    ("cifar10", "no dictionary"): (batch([1, 2]), "test_batch: holds no dictionary"),
    ("cifar10", "too few labels"): (
        batch({"data": IMAGES.reshape(2, -1), "labels": [1]}),
        "2 images, but 1 labels",
    ),
    ("cifar10", "labels of text"): (
        batch({"data": IMAGES.reshape(2, -1), "labels": ["a", "b"]}),
        "labels are not all numbers",
    ),
    ("cifar10", "wrong width"): (
        batch({"data": np.zeros((2, 100), np.uint8), "labels": [1, 2]}),
        r"images of shape \[2, 100\]; expected \[N, 3, 32, 32\]",
    ),
    ("cifar10", "data of text"): (batch({"data": "x", "labels": [1]}), "'data' is no array"),
    ("cifar10", "other names"): (saved(a=IMAGES), "holds a; expected x_train"),
    ("cifar10", "pixels beyond 1"): (
        saved(x_test=IMAGES + 2.0, y_test=[0, 1]),
        "pixels from 2.0 to 2.0",
    ),
    ("cifar10", "pixels not finite"): (
        saved(x_test=IMAGES + np.nan, y_test=[0, 1]),
        "pixels from nan",
    ),
    ("cifar10", "whole numbers"): (
        saved(x_test=IMAGES.astype(np.int64), y_test=[0, 1]),
        "pixels are int64; expected bytes",
    ),
    ("cifar10", "labels of floats"): (
        saved(x_test=IMAGES, y_test=[0.5, 1]),
        r"labels are float64 \[2\]",
    ),
    ("cifar10", "a number"): (saved(x_test=np.uint8(3), y_test=[1]), r"images of shape \[\]"),
    ("cifar10", "objects"): (
        saved(x_test=np.array([Hostile(Path("x"))]), y_test=[0]),
        "damaged archive of arrays",
    ),
    ("cifar10", "cut npz"): (
        spoil("npz", "cifar10", "images.npz", lambda b: b[:-40]),
        "damaged archive of arrays",
    ),
    ("cifar10", "cut archive"): (
        spoil("archive", "cifar10", "cifar-10-python.tar.gz", lambda b: b[:2000]),
        "no CIFAR-10 found",
    ),
    ("cifar10", "png of another size"): (
        png("train/cat/1.png", (31, 32)),
        "train/cat/1.png: 31×32 pixels; expected 32×32",
    ),
    ("cifar10", "png of no class"): (
        png("train/lion/1.png", (32, 32)),
        "CLASS is 0 to 9 or one of",
    ),
    ("cifar10", "png in no folder"): (
        png("some/1.png", (32, 32)),
        "expected images as train/CLASS",
    ),
    ("cifar10", "cut png"): (
        spoil("png", "cifar10", "test/dog/00005.png", lambda b: b[:200]),
        "test/dog/00005.png: damaged or no PNG file",
    ),
    ("cifar10", "no png"): (
        spoil("png", "cifar10", "test/dog/00005.png", lambda _: b"GIF89a"),
        "test/dog/00005.png: damaged or no PNG file",
    ),
    ("mnist", "cut idx"): (
        spoil("idx", "mnist", "train-images-idx3-ubyte", lambda b: b[:-5]),
        r"train-images-idx3-ubyte: \[20, 28, 28\] elements are announced, but 15675 bytes follow",
    ),
    ("mnist", "labels for images"): (
        spoil("idx", "mnist", "t10k-images-idx3-ubyte", lambda _: b"\0\0\x08\1\0\0\0\0"),
        r"t10k-images-idx3-ubyte: is no idx file of bytes with 3 sizes \(it begins with 00 00 08 01\)",
    ),
    ("mnist", "cut gzip"): (
        spoil("idx.gz", "mnist", "t10k-labels-idx1-ubyte.gz", lambda b: b[:-9]),
        "t10k-labels-idx1-ubyte.gz: truncated gzip file",
    ),
    ("mnist", "no labels"): (
        lambda f: (idx()(f, "mnist"), (f / "train-labels-idx1-ubyte").unlink()),
        "there is train-images-idx3-ubyte, but not the file of its labels",
    ),
}


@pytest.mark.parametrize(("name", "case"), BAD)
def test_bad_files_are_one_clear_line(name: str, case: str, tmp_path: Path) -> None:
    write, says = BAD[name, case]
    write(tmp_path)
    with pytest.raises(InvalidInput, match=says) as caught:
        read_dataset(name, str(tmp_path))
    assert "\n" not in str(caught.value)


def test_a_cut_archive_is_named(tmp_path: Path) -> None:
    archive(tmp_path, "cifar10")
    path = tmp_path / "cifar-10-python.tar.gz"
    path.write_bytes(path.read_bytes()[:2000])
    with pytest.raises(InvalidInput, match=r"damaged archive.*fetch it again"):
        read_dataset("cifar10", str(path))


@pytest.mark.parametrize("place", ["missing", "a\0b"])
@pytest.mark.parametrize("name", ["cifar10", "mnist"])
def test_a_missing_place_says_where_to_fetch_it(name: str, place: str) -> None:
    with pytest.raises(InvalidInput, match="no such folder or file; the data set is at http"):
        read_dataset(name, place)
    with pytest.raises(InvalidConfig, match=r"--data: .* fetch them from http"):
        read_dataset(name, None)


def test_png_files_without_pillow(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pngs(tmp_path, "mnist")
    monkeypatch.setitem(__import__("sys").modules, "PIL", None)
    with pytest.raises(MissingDependency, match=r"pip install 'anybound\[train\]'"):
        read_dataset("mnist", str(tmp_path))


def test_all_errors_are_the_projects() -> None:
    with pytest.raises(AnyboundError, match="unknown data set 'imagenet'"):
        read_dataset("imagenet", "x")
    assert isinstance(read_dataset("digits", None), Dataset)
