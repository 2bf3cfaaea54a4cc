"""`anybound-check NET PROP CERT [--json]`: VALID, or INVALID and the reason.

Exit codes: 0 valid, 1 invalid, 2 a file cannot be read or uses what the checker does not know.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Sequence

from anybound_check.check import check


def main(arguments: Sequence[str] | None = None) -> int:
    """The exit code of a command line."""
    parser = argparse.ArgumentParser(prog="anybound-check", description="check a certificate")
    parser.add_argument("network", metavar="NET", help="the network, .onnx or .onnx.gz")
    parser.add_argument("property", metavar="PROP", help="the property, .vnnlib or .vnnlib.gz")
    parser.add_argument("certificate", metavar="CERT", help="a certificate, or a witness")
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    chosen = parser.parse_args(arguments)
    report = check(chosen.network, chosen.property, chosen.certificate)
    if chosen.json:
        seconds = round(report.seconds, 6)
        record = {"valid": report.valid, "reason": report.reason, "semantics": report.semantics}
        sys.stdout.write(json.dumps({**record, "seconds": seconds}) + "\n")
    elif report.valid:
        sys.stdout.write(f"VALID ({report.semantics})\n")
    else:
        sys.stdout.write(f"INVALID: {report.reason}\n")
    return 0 if report.valid else 2 if report.unreadable else 1


if __name__ == "__main__":
    sys.exit(main())
