#!/bin/sh
# Builds the fuzzer of the C entry points with clang: build.sh [output]
# Addresses and undefined behaviour are checked in every unit, and the first finding ends the run. The ISA
# units get the flags that meson.build gives them; they trap instead of printing what they found, since
# their unrolled tiles take several times as long to compile with calls that print.
set -eu
here=$(cd "$(dirname "$0")" && pwd)
csrc=${CSRC:-$here/../../simdconv/backends/simd/csrc}
out=${1:-conv_fuzzer}
cc=${CC:-clang}
common="-std=gnu11 -O1 -g -D_GNU_SOURCE -ffp-contract=off -fno-math-errno -I$csrc -DSC_WORK_A_THREAD=64"
sanitize="-fsanitize=address,undefined -fno-sanitize-recover=all"
objects=$(mktemp -d)
trap 'rm -rf "$objects"' EXIT
avx2="-mavx2 -mfma"
case $(uname -m) in
x86_64) isas="baseline avx2 avx512" ;;
*) isas="baseline neon" ;;
esac

compile() { # SOURCE FLAG...
    source=$1
    shift
    # shellcheck disable=SC2086
    $cc $common $sanitize -fsanitize=fuzzer-no-link "$@" -c "$source" -o "$objects/$(basename "$source" .c).o"
}

jobs=
for isa in $isas; do
    case $isa in
    avx2) flags=$avx2 ;;
    avx512) flags="$avx2 -mavx512f -mavx512bw -mavx512dq -mavx512vl" ;;
    *) flags= ;;
    esac
    # shellcheck disable=SC2086
    compile "$csrc/isa/$isa.c" $flags -fsanitize-trap=undefined &
    jobs="$jobs $!"
done
for file in "$csrc"/core/*.c "$here/exact.c"; do
    case $(basename "$file") in workspace.c | parallel.c) continue ;; esac # exact.c stands for them
    compile "$file"
done
for job in $jobs; do wait "$job"; done
$cc $common $sanitize -fsanitize=fuzzer "$here/conv_fuzzer.c" "$objects"/*.o -lm -lpthread -o "$out"
