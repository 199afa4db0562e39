#!/bin/sh
# symbols.sh NM LIBRARY SYMBOL: the library of an ISA exports SYMBOL and nothing else, so that code with
# that ISA's instructions cannot be linked in the place of other code of the same name. What the address
# sanitizer adds does not count.
found=$("$1" --defined-only --extern-only "$2" | awk 'NF == 3 && $3 !~ /^__(odr_)?asan/ {print $3}')
[ "$found" = "$3" ] && exit 0
echo "$2 exports: $found; expected: $3"
exit 1
