#!/bin/sh
# Builds the fuzzer of the C entry points with clang: build.sh [output]
# The ISA units get the flags that meson.build gives them. Their unrolled tiles take hours to compile with
# the checks of undefined behaviour, so these cover the rest only; addresses are checked everywhere.
set -eu
here=$(cd "$(dirname "$0")" && pwd)
csrc=${CSRC:-$here/../../simdconv/backends/simd/csrc}
out=${1:-conv_fuzzer}
cc=${CC:-clang}
common="-std=gnu11 -O1 -g -D_GNU_SOURCE -ffp-contract=off -fno-math-errno -I$csrc"
sanitize="-fsanitize=address,undefined -fno-sanitize-recover=all"
addresses="-fsanitize=address"
objects=$(mktemp -d)
trap 'rm -rf "$objects"' EXIT
avx2="-mavx2 -mfma"
case $(uname -m) in
x86_64) isas="baseline avx2 avx512" ;;
*) isas="baseline neon" ;;
esac
for isa in $isas; do
    case $isa in
    avx2) flags=$avx2 ;;
    avx512) flags="$avx2 -mavx512f -mavx512bw -mavx512dq -mavx512vl" ;;
    *) flags= ;;
    esac
    $cc $common $flags $addresses -fsanitize=fuzzer-no-link -c "$csrc/isa/$isa.c" -o "$objects/isa_$isa.o"
done
for file in "$csrc"/core/*.c; do
    $cc $common $sanitize -fsanitize=fuzzer-no-link -c "$file" -o "$objects/$(basename "$file" .c).o"
done
$cc $common $sanitize -fsanitize=fuzzer "$here/conv_fuzzer.c" "$objects"/*.o -lm -lpthread -o "$out"
