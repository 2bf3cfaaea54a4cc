# What the three scripts share. ANYBOUND_PYTHON chooses an interpreter that anybound is installed in.

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
python=${ANYBOUND_PYTHON:-$root/.venv/bin/python}

# The interface's version comes first, and only one is known.
check_version() {
    if [[ ${1-} != v1 ]]; then
        echo "${0##*/}: the first argument is '${1-}'; expected the version v1" >&2
        exit 2
    fi
}

# usage: expect COUNT WORDS "$@"
expect() {
    local count=$1 words=$2
    shift 2
    if [[ $# -ne $count ]]; then
        echo "usage: ${0##*/} $words" >&2
        exit 2
    fi
}
