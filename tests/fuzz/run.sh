#!/bin/sh
# Fuzzes the C entry points for so many seconds: run.sh [SECONDS [DIRECTORY]]
# The fuzzer is built if DIRECTORY (default: fuzz-run) has none, and goes on from the inputs that are kept there.
# Ends with an error at the first finding, whose input is left in DIRECTORY.
set -eu
here=$(cd "$(dirname "$0")" && pwd)
seconds=${1:-300}
directory=${2:-fuzz-run}
mkdir -p "$directory/corpus"
[ -x "$directory/conv_fuzzer" ] || "$here/build.sh" "$directory/conv_fuzzer"
cd "$directory"
# len_control: a problem takes some forty bytes, so long inputs from the start
exec ./conv_fuzzer -max_len=160 -len_control=0 -timeout=60 -max_total_time="$seconds" -print_final_stats=1 corpus
