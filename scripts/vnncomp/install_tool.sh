#!/usr/bin/env bash
# install_tool.sh v1: install into .venv of this checkout, and compile once what is compiled.
# With ANYBOUND_PYTHON set, nothing is installed; it has to have anybound already.
set -euo pipefail
source "$(dirname "${BASH_SOURCE[0]}")/common.sh"
check_version "$@"
expect 1 "v1" "$@"

if [[ -z ${ANYBOUND_PYTHON-} ]]; then
    make -C "$root" .venv/.installed
fi
"$python" -m anybound --version
"$python" -c "import anybound.warm"
