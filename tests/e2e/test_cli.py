"""The command line as people and scripts meet it: exit codes, one-line errors, JSON, safe text.

Most tests call `main` in this process; a few start a real one for what only a process can show.
"""

import gzip
import io
import json
import os
import re
import shutil
import signal
import subprocess
import sys
from argparse import Namespace
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from anybound.cli import main as module
from anybound.cli.command import Command, Example
from anybound.cli.main import COMMANDS, build_parser, main
from anybound.cli.output import Output
from anybound.errors import InvalidInput

DATA = Path(module.__file__).parents[1] / "data"
NETWORK = DATA / "networks" / "digits_dense.onnx"
PROPERTY = DATA / "properties" / "digits_dense_image0_eps0.05.vnnlib"
OTHER_PROPERTY = """
(declare-const X_0 Real)
(declare-const Y_0 Real)
(assert (and (>= X_0 0) (<= X_0 1) (<= Y_0 0)))
"""
ESCAPE = "\x1b"
EVIL = f"a\n{ESCAPE}[31mred\r\u202eb"

Capture = pytest.CaptureFixture[str]


def run(capsys: Capture, *arguments: str) -> tuple[int, str, str]:
    """Exit code, standard output and standard error of a command."""
    code = main(arguments)
    captured = capsys.readouterr()
    return code, captured.out, captured.err


def assert_one_line(err: str) -> None:
    assert err.startswith("anybound: error: ")
    assert err.count("\n") == 1
    assert err.endswith("\n")
    assert err.removesuffix("\n").isprintable()


def process(*arguments: str, **options: object) -> subprocess.Popen[str]:
    """A real process running anybound."""
    return subprocess.Popen(  # type: ignore[call-overload,no-any-return]  # options vary
        [sys.executable, "-m", "anybound", *arguments],
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "OMP_NUM_THREADS": "1"},
        **{"stdout": subprocess.PIPE, **options},
    )


def save_network(path: Path, operators: list[str], names: list[str]) -> Path:
    """A chain of operators without weights on an input of shape [1, 3]."""
    tensors = ["x", *(f"t{i}" for i in range(1, len(operators))), "y"]
    nodes = [
        helper.make_node(operator, [tensors[i]], [tensors[i + 1]], name=names[i])
        for i, operator in enumerate(operators)
    ]
    value = [helper.make_tensor_value_info(name, TensorProto.FLOAT, [1, 3]) for name in "xy"]
    graph = helper.make_graph(nodes, "chain", value[:1], value[1:])
    opsets = [helper.make_opsetid("", 17)]
    onnx.save(helper.make_model(graph, opset_imports=opsets, ir_version=8), path)
    return path


# Help


def test_help_lists_the_commands(capsys: Capture) -> None:
    code, out, err = run(capsys, "--help")
    assert code == 0
    assert not err
    for command in COMMANDS:
        assert re.search(rf"^ +{command.name} ", out, re.MULTILINE)


@pytest.mark.parametrize("command", COMMANDS, ids=lambda c: c.name)
def test_help_of_a_command_shows_examples_that_parse(command: Command, capsys: Capture) -> None:
    code, out, _ = run(capsys, command.name, "--help")
    assert code == 0
    for example in command.examples:
        assert example.line in out
        line = example.line.replace("anybound-check ", "anybound check ")  # the same arguments
        arguments = re.split(r"[|>)]", line.split("anybound ", 1)[1])[0].split()
        assert build_parser().parse(arguments).command == command.name


def test_versions_are_shown(capsys: Capture) -> None:
    code, out, _ = run(capsys, "--version")
    assert code == 0
    assert re.search(r"^anybound +\S", out, re.MULTILINE)
    code, out, _ = run(capsys, "--version", "--json")
    assert code == 0
    assert json.loads(out)["python"] == ".".join(map(str, sys.version_info[:3]))
    assert {"torch", "onnx", "onnxruntime", "numba"} <= json.loads(out).keys()


# Arguments


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        ([], "no command given (choose from inspect, "),
        (["inspct"], "unknown command 'inspct' (did you mean 'inspect'?)"),
        (["zzz"], "unknown command 'zzz' (choose from inspect, "),
        (["inspect"], "the following arguments are required: NET|PROP"),
        (["inspect", "x", "--jsn"], "unknown option '--jsn' (did you mean '--json'?)"),
        (
            ["inspect", "x", "--propert=y"],
            "unknown option '--propert' (did you mean '--property'?)",
        ),
        (["inspect", "x", "y"], "unexpected argument 'y'"),
        (["--threads", "0", "demo"], "'0' is not a whole number above 0"),
        (["demo", "--threads", "two"], "'two' is not a whole number above 0"),
        (["completion", "tcsh"], "unknown shell 'tcsh' (choose from bash, zsh, fish)"),
        (["inspect", "x", f"--{EVIL}"], "unknown option '--a\\n\\x1b[31mred"),
    ],
)
def test_bad_arguments(arguments: list[str], says: str, capsys: Capture) -> None:
    code, out, err = run(capsys, *arguments)
    assert code == 2
    assert not out
    assert_one_line(err)
    assert says in err
    assert "--help'" in err


def test_common_options_work_before_and_after_the_command(capsys: Capture) -> None:
    before = run(capsys, "--json", "inspect", str(PROPERTY))
    after = run(capsys, "inspect", str(PROPERTY), "--json")
    assert before == after
    assert json.loads(before[1])["kind"] == "property"


def test_after_two_dashes_everything_is_a_file(capsys: Capture) -> None:
    code, out, err = run(capsys, "inspect", "--", "--json")
    assert code == 2
    assert not out
    assert "--json: no such file" in err


def test_threads_reach_the_numerical_libraries(
    monkeypatch: pytest.MonkeyPatch, capsys: Capture
) -> None:
    for variable in module._THREAD_VARIABLES:
        monkeypatch.setenv(variable, "7")
    limits: list[int] = []
    loaded = SimpleNamespace(set_num_threads=limits.append)
    monkeypatch.setitem(sys.modules, "torch", loaded)
    assert run(capsys, "--threads", "2", "inspect", "missing")[0] == 2
    assert limits == [2]
    assert {os.environ[variable] for variable in module._THREAD_VARIABLES} == {"2"}


@pytest.mark.parametrize("given", [None, "active"])
def test_threads_that_wait_sleep_unless_told_otherwise(
    monkeypatch: pytest.MonkeyPatch, capsys: Capture, given: str | None
) -> None:
    monkeypatch.setenv("OMP_WAIT_POLICY", "whatever it was")  # so that it is restored
    monkeypatch.delenv("OMP_WAIT_POLICY")
    if given is not None:
        monkeypatch.setenv("OMP_WAIT_POLICY", given)
    run(capsys, "inspect", "missing")
    assert os.environ["OMP_WAIT_POLICY"] == (given or "passive")


# Bad input


def bad_file(kind: str, folder: Path) -> list[str]:
    """Arguments of `inspect` with a file that is bad in some way."""
    noise = np.random.default_rng(0).bytes(4096)
    contents: dict[str, bytes] = {
        "noise.onnx": noise,
        "noise.vnnlib": noise,
        "noise.onnx.gz": noise,
        "noise.bin": noise,
        "empty.onnx": b"",
        "empty.vnnlib": b"",
        "empty": b"",
        "truncated.onnx": NETWORK.read_bytes()[:3000],
        "truncated.vnnlib": PROPERTY.read_bytes()[:3000],
        "truncated.onnx.gz": gzip.compress(NETWORK.read_bytes())[:3000],
        "network-called.vnnlib": NETWORK.read_bytes(),
        "property-called.onnx": PROPERTY.read_bytes(),
    }
    (folder / "other.vnnlib").write_text(OTHER_PROPERTY)
    special = {
        "missing": [str(folder / "missing.onnx")],
        "directory": [str(folder)],
        "mismatch": [str(NETWORK), "--property", str(folder / "other.vnnlib")],
        "two properties": [str(PROPERTY), "--property", str(PROPERTY)],
        "missing property": [str(NETWORK), "--property", str(folder / "missing.vnnlib")],
        "network as property": [str(NETWORK), "--property", str(NETWORK)],
    }
    if kind in special:
        return special[kind]
    (folder / kind).write_bytes(contents[kind])
    return [str(folder / kind)]


BAD_FILES = [
    "noise.onnx",
    "noise.vnnlib",
    "noise.onnx.gz",
    "noise.bin",
    "empty.onnx",
    "empty.vnnlib",
    "empty",
    "truncated.onnx",
    "truncated.vnnlib",
    "truncated.onnx.gz",
    "network-called.vnnlib",
    "property-called.onnx",
    "missing",
    "directory",
    "mismatch",
    "two properties",
    "missing property",
    "network as property",
]


@pytest.mark.parametrize("kind", BAD_FILES)
def test_a_bad_file_is_one_line_and_exit_code_2(kind: str, tmp_path: Path, capsys: Capture) -> None:
    code, out, err = run(capsys, "inspect", *bad_file(kind, tmp_path))
    assert code == 2
    assert not out
    assert_one_line(err)
    assert "bug" not in err


def test_an_error_is_a_json_object_too(capsys: Capture) -> None:
    code, out, err = run(capsys, "inspect", "missing.onnx", "--json")
    assert code == 2
    assert json.loads(out) == {"error": "missing.onnx: no such file"}
    assert_one_line(err)


# Failures


def failing(error: BaseException) -> Command:
    def fail(options: Namespace, output: Output) -> int:
        raise error

    return Command("fail", "fail", (Example("anybound fail", "fails"),), lambda parser: None, fail)


@pytest.mark.parametrize(
    ("error", "code", "says"),
    [
        (KeyboardInterrupt(), 130, "anybound: interrupted\n"),
        (InvalidInput("got 3,\nexpected 4"), 2, "anybound: error: got 3,\\nexpected 4\n"),
        (MemoryError(), 2, "anybound: error: out of memory"),
        (PermissionError(13, "Permission denied", "a.onnx"), 2, "a.onnx: Permission denied\n"),
        (OSError(28, "No space left on device"), 2, "anybound: error: No space left on device\n"),
        (ZeroDivisionError("by zero"), 2, "ZeroDivisionError: by zero (a bug in anybound: "),
        (RecursionError(), 2, "RecursionError"),
    ],
)
def test_every_failure_has_its_line_and_code(
    error: BaseException,
    code: int,
    says: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: Capture,
) -> None:
    monkeypatch.setattr(module, "COMMANDS", (failing(error),))
    monkeypatch.delenv("ANYBOUND_DEBUG", raising=False)
    assert main(["fail"]) == code
    err = capsys.readouterr().err
    assert says in err
    assert err.count("\n") == 1


@pytest.mark.parametrize("option", [True, False])
def test_debug_shows_the_traceback(
    option: bool, monkeypatch: pytest.MonkeyPatch, capsys: Capture
) -> None:
    monkeypatch.setattr(module, "COMMANDS", (failing(ZeroDivisionError("by zero")),))
    monkeypatch.setenv("ANYBOUND_DEBUG", "" if option else "1")
    assert main(["fail", "--debug"] if option else ["fail"]) == 2
    err = capsys.readouterr().err
    assert "Traceback (most recent call last)" in err
    assert err.splitlines()[-1].startswith("anybound: error: ZeroDivisionError")


def test_an_interrupt_of_the_process_is_exit_code_130(tmp_path: Path) -> None:
    with process("demo", str(tmp_path)) as child:
        assert child.stderr is not None
        assert child.stderr.readline().startswith("1/3")  # it works, and has long to go
        child.send_signal(signal.SIGINT)
        _, err = child.communicate(timeout=60)
    assert child.returncode == 130
    assert err.splitlines()[-1] == "anybound: interrupted"
    assert "Traceback" not in err


def test_a_reader_that_has_seen_enough_is_no_error() -> None:
    reader, writer = os.pipe()
    os.close(reader)
    with process("completion", "bash", stdout=writer) as child:
        os.close(writer)
        _, err = child.communicate(timeout=60)
    assert child.returncode == 0
    assert not err


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="there is no /dev/full")
def test_output_that_cannot_be_written_is_an_error() -> None:
    with Path("/dev/full").open("w") as full, process("completion", "bash", stdout=full) as child:
        _, err = child.communicate(timeout=60)
    assert child.returncode == 2
    assert_one_line(err)


def test_an_ascii_terminal_gets_escapes(monkeypatch: pytest.MonkeyPatch) -> None:
    narrow = io.TextIOWrapper(io.BytesIO(), encoding="ascii")
    monkeypatch.setattr(sys, "stdout", narrow)
    assert main(["inspect", str(NETWORK)]) == 0
    narrow.seek(0)
    assert "Reshape \\u2192 Dense" in narrow.read()


# Text that is safe to show


@pytest.mark.parametrize("exists", [True, False])
def test_a_file_name_cannot_forge_output(exists: bool, tmp_path: Path, capsys: Capture) -> None:
    path = tmp_path / f"{EVIL}.onnx"
    if exists:
        shutil.copy(NETWORK, path)
    code, out, err = run(capsys, "inspect", str(path))
    assert code == (0 if exists else 2)
    shown = out.splitlines()[0] if exists else err
    assert "a\\n\\x1b[31mred\\r\\u202eb.onnx" in shown
    assert ESCAPE not in out + err
    assert "\u202e" not in out + err


def test_a_file_name_that_is_not_text(tmp_path: Path, capsys: Capture) -> None:
    code, _, err = run(capsys, "inspect", str(tmp_path / os.fsdecode(b"\xff\xfe.onnx")))
    assert code == 2
    assert "\\udcff\\udcfe.onnx: no such file" in err


def test_node_names_cannot_forge_output(tmp_path: Path, capsys: Capture) -> None:
    names = [EVIL, f"[bold]{EVIL}[/bold]"]
    path = save_network(tmp_path / "net.onnx", ["Relu", "Softmax"], names)
    code, out, _ = run(capsys, "inspect", str(path))
    assert code == 0
    assert ESCAPE not in out
    assert "[bold]a\\n\\x1b[31m" in out
    code, out, _ = run(capsys, "inspect", str(path), "--json")
    assert [node["name"] for node in json.loads(out)["nodes"]] == names


class Terminal(io.StringIO):
    """A standard output that says it is a terminal."""

    encoding = "utf-8"

    def isatty(self) -> bool:
        return True


@pytest.mark.parametrize(("variable", "colours"), [("", True), ("1", False)])
def test_colours_are_for_terminals_and_no_color_is_respected(
    variable: str, colours: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    terminal = Terminal()
    monkeypatch.setattr(sys, "stdout", terminal)
    monkeypatch.setenv("TERM", "xterm-256color")
    monkeypatch.setenv("COLUMNS", "120")
    monkeypatch.setenv("NO_COLOR", variable)
    assert main(["inspect", str(PROPERTY)]) == 0
    assert (ESCAPE in terminal.getvalue()) == colours


def test_a_pipe_gets_plain_unwrapped_text(tmp_path: Path, capsys: Capture) -> None:
    name = "n" * 300
    path = save_network(tmp_path / "net.onnx", ["Relu", "Softmax"], ["r", name])
    _, out, _ = run(capsys, "inspect", str(path))
    assert ESCAPE not in out
    assert any(line.startswith("Softmax") and name in line for line in out.splitlines())


# inspect


@pytest.mark.parametrize(
    "network", sorted((DATA / "networks").glob("*.onnx")), ids=lambda p: p.stem
)
def test_inspect_tells_what_onnx_says(network: Path, capsys: Capture) -> None:
    code, out, err = run(capsys, "inspect", str(network), "--json")
    assert code == 0
    assert not err
    found, graph = json.loads(out), onnx.load(network).graph
    stored = {tensor.name: numpy_helper.to_array(tensor) for tensor in graph.initializer}
    operators = [node.op_type for node in graph.node]
    assert found["supported"] is True
    assert found["unsupported"] == []
    assert found["operators"] == {name: operators.count(name) for name in operators}
    assert found["parameters"] == sum(array.size for array in stored.values())
    assert found["inputs"] == [{"name": "input", "dtype": "float32", "shape": [1, 1, 8, 8]}]
    assert found["outputs"] == [{"name": "output", "dtype": "float32", "shape": [1, 10]}]
    layers = found["layers"]
    assert [layer["index"] for layer in layers] == list(range(len(layers)))
    assert len(layers) == 2 + operators.count("Relu") + operators.count("Sigmoid")
    assert all(source < layer["index"] for layer in layers for source in layer["sources"])
    assert (layers[0]["neurons"], layers[-1]["neurons"]) == (64, 10)


def test_inspect_counts_ambiguous_neurons(capsys: Capture) -> None:
    """Against interval arithmetic on the file's matrices; the network is Gemm, Relu, …, Gemm."""
    code, out, _ = run(capsys, "inspect", str(NETWORK), "--property", str(PROPERTY), "--json")
    assert code == 0
    found = json.loads(out)["ambiguous"]
    borders = re.findall(r"\(assert \(([<>])= X_(\d+) (\S+?)\)\)", PROPERTY.read_text())
    lower, upper = np.zeros(64), np.zeros(64)
    for relation, index, value in borders:
        (upper if relation == "<" else lower)[int(index)] = float(value)
    assert len(borders) == 128
    graph = onnx.load(NETWORK).graph
    stored = {tensor.name: numpy_helper.to_array(tensor) for tensor in graph.initializer}
    counts = []
    for node in [node for node in graph.node if node.op_type == "Gemm"][:-1]:
        transposed = any(a.name == "transB" and a.i for a in node.attribute)
        weight = stored[node.input[1]].astype(float)
        weight = weight if transposed else weight.T
        bias = stored[node.input[2]]
        middle, radius = weight @ (lower + upper) / 2 + bias, abs(weight) @ (upper - lower) / 2
        lower, upper = middle - radius, middle + radius
        counts.append(int(((lower < 0) & (upper > 0)).sum()))
        lower, upper = lower.clip(0), upper.clip(0)
    assert [layer["ambiguous"] for layer in found["layers"]] == counts
    assert found["ambiguous"] == sum(counts) > 0


def test_inspect_lists_what_is_unsupported_and_where(tmp_path: Path, capsys: Capture) -> None:
    operators = ["Relu", "Softmax", "Softplus", "Tanh"]
    path = save_network(tmp_path / "net.onnx", operators, ["a", "b", "c", "d"])
    code, out, err = run(capsys, "inspect", str(path), "--json")
    assert code == 0
    assert not err
    found = json.loads(out)
    assert found["supported"] is False
    assert [(e["node"], e["operator"]) for e in found["unsupported"]] == [
        ("b", "Softmax"),
        ("c", "Softplus"),
    ]
    assert all(entry["reason"] and entry["advice"] for entry in found["unsupported"])
    assert found["operators"] == dict.fromkeys(operators, 1)
    assert [node["outputs"][0]["shape"] for node in found["nodes"]] == [[1, 3]] * 4
    code, out, _ = run(capsys, "inspect", str(path))
    assert code == 0
    assert "not supported (2):" in out


def test_inspect_tells_a_property_by_name_or_content(tmp_path: Path, capsys: Capture) -> None:
    packed = tmp_path / "p.vnnlib.gz"
    packed.write_bytes(gzip.compress(PROPERTY.read_bytes()))
    unnamed = shutil.copy(PROPERTY, tmp_path / "property")
    for path in (PROPERTY, packed, unnamed):
        found = json.loads(run(capsys, "inspect", "--json", str(path))[1])
        assert (found["kind"], found["inputs"], found["outputs"]) == ("property", 64, 10)
        assert found["clauses"] == 9
    unnamed = shutil.copy(NETWORK, tmp_path / "network")
    assert json.loads(run(capsys, "inspect", "--json", str(unnamed))[1])["kind"] == "network"


def test_verbose_shows_every_node(capsys: Capture) -> None:
    plain, verbose = (run(capsys, "inspect", str(NETWORK), *v)[1] for v in ([], ["-v"]))
    assert "operator" not in plain.replace("operators", "")
    assert sum(line.startswith("Gemm") for line in verbose.splitlines()) == 3


# demo


def test_demo_proves_a_property_and_leaves_pictures(tmp_path: Path, capsys: Capture) -> None:
    pytest.importorskip("matplotlib")
    code, out, err = run(capsys, "demo", str(tmp_path / "here"), "--json", "--quiet")
    assert code == 0
    assert not err
    found = json.loads(out)
    assert found["verdict"] == "holds"
    assert min(clause["lower"] for clause in found["clauses"]) > 0
    loose, lower, upper = found["interval"], found["lower"], found["upper"]
    for i, output in enumerate(found["outputs"]):
        assert loose["lower"][i] <= lower[i] <= output <= upper[i] <= loose["upper"][i]
    assert len(found["pictures"]) == 3
    for picture in found["pictures"]:
        assert Path(picture).read_bytes().startswith(b"\x89PNG")


def test_demo_without_matplotlib_says_how_to_get_pictures(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Capture
) -> None:
    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)
    code, out, err = run(capsys, "demo", str(tmp_path))
    assert code == 0
    assert "holds: " in out
    assert "pip install 'anybound[report]'" in err


def test_demo_into_a_file_is_an_error(tmp_path: Path, capsys: Capture) -> None:
    (tmp_path / "file").touch()
    code, _, err = run(capsys, "demo", str(tmp_path / "file"))
    assert code == 2
    assert_one_line(err)


# completion


def bash_completes(words: list[str], folder: Path) -> list[str]:
    """What bash offers for the last of `words`."""
    script = f"""
        source <({sys.executable} -m anybound completion bash)
        COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1))
        _anybound; printf '%s\\n' "${{COMPREPLY[@]}}"
    """
    done = subprocess.run(
        ["bash", "-c", script, "bash", *words],
        cwd=folder,
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )
    assert not done.stderr
    return done.stdout.split("\n")[:-1]


@pytest.mark.skipif(shutil.which("bash") is None, reason="there is no bash")
@pytest.mark.parametrize(
    ("words", "offers"),
    [
        (["ins"], ["inspect"]),
        (["--ver"], ["--version", "--verbose"]),
        (["inspect", "--pr"], ["--property"]),
        (["inspect", ""], ["a net.onnx", "folder", "p.vnnlib.gz"]),
        (["inspect", "n.onnx", "--property", ""], ["folder", "p.vnnlib.gz"]),
        (["demo", ""], ["folder"]),
        (["completion", ""], ["bash", "zsh", "fish"]),
        (["--threads", ""], [""]),
    ],
)
def test_bash_completion(words: list[str], offers: list[str], tmp_path: Path) -> None:
    for name in ("a net.onnx", "p.vnnlib.gz", "notes.txt"):
        (tmp_path / name).touch()
    (tmp_path / "folder").mkdir()
    assert sorted(bash_completes(["anybound", *words], tmp_path)) == sorted(offers)


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_completion_knows_every_command_and_option(shell: str, capsys: Capture) -> None:
    code, script, _ = run(capsys, "completion", shell)
    assert code == 0
    assert "@" not in re.sub(r'"\$[@{]|\[@\]', "", script), "no placeholder is left"
    parser = build_parser()
    for name, child in parser.commands().items():
        assert name in script
        for option in child.options():
            for flag in option.flags:
                word = flag.lstrip("-") if shell == "fish" else flag
                assert re.search(rf"(?<![\w-]){re.escape(word)}(?![\w-])", script), flag
    code, out, _ = run(capsys, "completion", shell, "--json")
    assert json.loads(out) == {"shell": shell, "script": script}


def test_zsh_tells_arguments_apart_by_their_place(capsys: Capture) -> None:
    script = run(capsys, "completion", "zsh")[1]
    (line,) = re.findall(r"^ +verify\) (.*)$", script, re.MULTILINE)
    assert re.findall(r"'(\S+?):(NET|PROP):", line) == [("1", "NET"), ("2", "PROP")]


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_a_shell_accepts_the_script(shell: str, capsys: Capture) -> None:
    if shutil.which(shell) is None:
        pytest.skip(f"there is no {shell}")
    script = run(capsys, "completion", shell)[1]
    done = subprocess.run([shell, "-n"], input=script, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")
