/* Runs the vector test of one ISA, VEC_ISA, where the machine has that ISA. */
#include "check.h"
#include "simdconv.h"

int test_vectors(void);

int main(void) {
    if (sc_isa_found(VEC_ISA)) return test_vectors();
    printf("this machine has no %s\n", sc_isa_name(VEC_ISA));
    return SKIPPED;
}
