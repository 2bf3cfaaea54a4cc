"""The command line that decides an instance of a run again."""

from __future__ import annotations

import shlex
from pathlib import PurePath

from anybound.report.run import Instance

__all__ = ["command_of"]

_OPTIONS = ("method", "intermediate", "search", "seed", "memory", "threads")


def command_of(instance: Instance) -> str:
    """`anybound verify NET PROP` with the options of the run, ready for a shell."""
    config = instance.config
    words = ["anybound", "verify"]
    words += [str(PurePath(instance.folder) / name) for name in (instance.onnx, instance.vnnlib)]
    if config.get("timeout") is not None:
        words += ["--timeout", f"{config['timeout']:g}"]
    for name in _OPTIONS:
        if config.get(name) not in (None, 0):
            words += [f"--{name}", str(config[name])]
    if config.get("complete") is False:
        words.append("--no-search")
    if config.get("certify"):
        words.append("--certify")
    if config.get("semantics") not in (None, "real"):
        words += ["--semantics", str(config["semantics"])]
    return " ".join(shlex.quote(word) for word in words)
