#!/usr/bin/env bash
# prepare_instance.sh v1 CATEGORY ONNX VNNLIB: exit code 0 if the instance can be run.
set -euo pipefail
source "$(dirname "${BASH_SOURCE[0]}")/common.sh"
check_version "$@"
expect 4 "v1 CATEGORY ONNX VNNLIB" "$@"

for file in "$3" "$4"; do
    if [[ ! -r $file ]]; then
        echo "prepare_instance.sh: $file: cannot be read" >&2
        exit 1
    fi
done
"$python" -c "import anybound"
