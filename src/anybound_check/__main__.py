"""`anybound-check NET PROP CERT [--json]`: VALID, or INVALID and the reason.

Exit codes: 0 valid, 1 invalid, 2 a file cannot be read or uses what the checker does not know.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Sequence

from anybound_check.proof import check


def main(arguments: Sequence[str] | None = None) -> int:
    """The exit code of a command line."""
    parser = argparse.ArgumentParser(prog="anybound-check", description="check a certificate")
    parser.add_argument("network", help="the network, .onnx or .onnx.gz")
    parser.add_argument("property", help="the property, .vnnlib or .vnnlib.gz")
    parser.add_argument("certificate", help="the certificate that `anybound verify` has written")
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    chosen = parser.parse_args(arguments)
    report = check(chosen.network, chosen.property, chosen.certificate)
    word = "VALID" if report.valid else "UNREADABLE" if report.unreadable else "INVALID"
    if chosen.json:
        seconds = round(report.seconds, 6)
        record = {"valid": report.valid, "reason": report.reason, "semantics": report.semantics}
        line = json.dumps({**record, "seconds": seconds})
    else:
        line = word if report.valid else f"{word}: {report.reason}"
    sys.stdout.write(line + "\n")
    return 0 if report.valid else 2 if report.unreadable else 1


if __name__ == "__main__":
    sys.exit(main())
