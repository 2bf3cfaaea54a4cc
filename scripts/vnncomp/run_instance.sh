#!/usr/bin/env bash
# run_instance.sh v1 CATEGORY ONNX VNNLIB RESULTS_FILE TIMEOUT: write sat, unsat, unknown, timeout or
# error, and after sat the witness, to RESULTS_FILE.
set -uo pipefail
source "$(dirname "${BASH_SOURCE[0]}")/common.sh"
check_version "$@"
expect 6 "v1 CATEGORY ONNX VNNLIB RESULTS_FILE TIMEOUT" "$@"
results=$5

rm -f -- "$results"
"$python" -m anybound verify --quiet --timeout "$6" --result "$results" -- "$3" "$4" &
job=$!
trap 'kill -TERM "$job" 2>/dev/null' TERM INT
wait "$job"
code=$?
if kill -0 "$job" 2>/dev/null; then # a signal ended the first wait; the job ends at once
    wait "$job"
    code=$?
fi
if [[ ! -s $results ]]; then
    echo error >"$results"
fi
[[ $code -eq 0 || $code -eq 130 ]] || echo "run_instance.sh: anybound ended with code $code" >&2
