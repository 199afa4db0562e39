/* Every v_* function of one vector header. Compiled once an ISA, with that ISA's flags:
 * VEC_HEADER is its header, VEC_IS_FUSED whether its v_fma rounds once. */
#include VEC_HEADER

#include <float.h>
#include <math.h>

#include "check.h"

int test_vectors(void);

#define SC_IS_F64 0
#include "simd/vec.h"

#include "vec_typed.h"
#undef SC_IS_F64
#undef SC_SUFFIX
#define SC_IS_F64 1
#include "simd/vec.h"

#include "vec_typed.h"

int test_vectors(void) {
    test_f32();
    test_f64();
    return conclude(VEC_HEADER);
}
