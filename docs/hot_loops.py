"""Disassemble the inner loops of the micro-kernels, and count what they are made of.

    python docs/hot_loops.py                     the installed extension: a table for all ISAs
    python docs/hot_loops.py --show rows_14x2    and that kernel's inner loop
    python docs/hot_loops.py FILE --objdump aarch64-linux-gnu-objdump      any object file

Needs objdump (binutils). An inner loop is the shortest stretch that ends in a jump to its start and
holds the most multiply-adds; in the vertical kernels (..._8) with the loops in it. Stack: accesses
relative to the stack or frame pointer.
"""

import argparse
import re
import subprocess
from collections import defaultdict

VERTICAL = r"(?:by|narrow)_(?:filter|pair|lane|permuted_lane)_8_f32"
KERNELS = r"(?:rows|unit|beside|full|dense|even|narrow|narrow_lanes|dots)_\d+x2_f32|" + VERTICAL
FMA = r"vfmadd|\bfmla\b"
# the baseline has no FMA: a product and a sum
PRODUCT = r"\bmulps\b"


def functions(path, objdump):
    """Yield (name, [(address, instruction)]) of the micro-kernels with the largest tiles."""
    text = subprocess.run(
        [objdump, "-d", "--no-show-raw-insn", path], check=True, capture_output=True, text=True
    ).stdout
    for block in text.split("\n\n"):
        head = re.match(rf"\s*([0-9a-f]+) <({KERNELS})>:", block)
        if head:
            lines = re.findall(r"^\s*([0-9a-f]+):\s+(.+?)\s*(?:#.*)?$", block, re.M)
            yield head[2], [(int(at, 16), text) for at, text in lines]


def sums(instructions):
    """How many multiply-adds there are."""
    joined = "\n".join(text for _, text in instructions)
    return len(re.findall(FMA, joined)) or len(re.findall(PRODUCT, joined))


def inner_loop(code, innermost):
    """Return the instructions of the tightest loop with the most multiply-adds.

    `innermost`: of those that hold no other loop with multiply-adds.
    """
    loops = []
    for end, (_, text) in enumerate(code):
        jump = re.match(r"(?:j\w+|b\.\w+|cbn?z\s+\w+,)\s+([0-9a-f]+)\b", text)
        start = next((i for i, (at, _) in enumerate(code) if jump and at == int(jump[1], 16)), end)
        if start < end and sums(code[start : end + 1]):
            loops.append((start, end))
    if innermost:
        loops = [
            (start, end)
            for start, end in loops
            if not any(start <= a and b <= end for a, b in loops if (a, b) != (start, end))
        ]
    return max(
        (code[start : end + 1] for start, end in loops),
        key=lambda loop: (sums(loop), -len(loop)),
        default=[],
    )


def describe(loop):
    """Counts of a loop: ISA, multiply-adds, loads, broadcasts, prefetches, stack accesses, all."""
    text = [instruction for _, instruction in loop]
    joined = "\n".join(text)
    isa = next((name for name, mark in (("avx512", "%zmm"), ("avx2", "%ymm"), ("baseline", "%xmm"))
                if mark in joined), "neon")  # fmt: skip
    fmas = [line for line in text if re.search(f"{FMA}|{PRODUCT}", line)]
    return {
        "ISA": isa,
        "FMAs": len(fmas),
        "broadcasts": len(re.findall(r"vbroadcastss|\{1to16\}|\bld1r\b|shufps|\.s\[\d\]", joined)),
        "vector loads": len(
            re.findall(r"v?mov[ua]ps\s+[^%,\n]*\(|\bldr\s+q|\bldp\s+q|\bld1\s", joined)
        ),
        "prefetches": len(re.findall(r"prefetch|prfm", joined)),
        "stack": len(re.findall(r"\(%r[sb]p|\[sp|\[x29", joined)),
        "instructions": len(text),
    }


def main():
    """Print the table, and the loops that are asked for."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("file", nargs="?", help="object file or library; the installed extension")
    parser.add_argument("--objdump", default="objdump")
    parser.add_argument(
        "--show", help="also print the loops of kernels whose name starts like this"
    )
    given = parser.parse_args()
    if given.file is None:
        from simdconv.backends.simd import _core

        given.file = _core.__file__
    largest = defaultdict(dict)
    for name, code in functions(given.file, given.objdump):
        loop = inner_loop(code, innermost=not re.fullmatch(VERTICAL, name))
        if not loop:
            continue
        counts, family = describe(loop), re.split(r"_\d", name)[0]
        kept = largest[counts["ISA"]].get(family)
        if kept is None or sums(loop) > sums(kept[1]):
            largest[counts["ISA"]][family] = (name, loop, counts)
    rows = [row for isa in largest.values() for row in isa.values()]
    titles = ["kernel", *rows[0][2]]
    print("| " + " | ".join(titles) + " |")
    print("|---" * len(titles) + "|")
    for name, _, counts in rows:
        print(f"| {name} | " + " | ".join(str(value) for value in counts.values()) + " |")
    for name, loop, counts in rows:
        if given.show and name.startswith(given.show):
            print(f"\n{name}, {counts['ISA']}:")
            print("\n".join(f"    {text}" for _, text in loop))


if __name__ == "__main__":
    main()
