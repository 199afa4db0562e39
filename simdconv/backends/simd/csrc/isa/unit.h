/* One ISA unit: everything typed, once for float32 and once for float64, and the one symbol it
 * exports. The including file has set SC_UNIT (the ISA's name) and included its vector header. */
#include <stdint.h>
#include <string.h>

#include "../core/internal.h"

#if VREGS == 32
#define FOR_TILE_ROWS(X) X(1) X(2) X(3) X(4) X(5) X(6) X(7) X(8) X(9) X(10) X(11) X(12) X(13) X(14)
#else
#define FOR_TILE_ROWS(X) X(1) X(2) X(3) X(4) X(5) X(6)
#endif

#define SC_IS_F64 0
#include "typed.h"
#undef SC_IS_F64
#undef SC_SUFFIX
#define SC_IS_F64 1
#include "typed.h"

static double peak_flops(sc_dtype dtype, ptrdiff_t iterations) {
    return dtype == SC_F64 ? peak_f64(iterations) : peak_f32(iterations);
}

#define SC_STRING2(a) #a
#define SC_STRING(a) SC_STRING2(a)
#define SC_ROW(algorithm, ALGORITHM, layout, LAYOUT, driver, t, DTYPE)                             \
    {#algorithm "-" #layout "-" SC_STRING(SC_UNIT) "-" #t,                                         \
     SC_##ALGORITHM,                                                                               \
     SC_##LAYOUT,                                                                                  \
     SC_##DTYPE,                                                                                   \
     SC_PASTE(SC_ISA, SC_UNIT),                                                                    \
     driver##_filter_size_##t,                                                                     \
     driver##_variant_##t,                                                                         \
     driver##_pack_##t,                                                                            \
     driver##_workspace_##t,                                                                       \
     driver##_run_##t},

const sc_unit SC_PASTE(sc_unit, SC_UNIT) = {
    {
#define SC_KERNEL(algorithm, ALGORITHM, layout, LAYOUT, driver)                                    \
    SC_ROW(algorithm, ALGORITHM, layout, LAYOUT, driver, f32, F32)
#include "../kernels.def"
#undef SC_KERNEL
#define SC_KERNEL(algorithm, ALGORITHM, layout, LAYOUT, driver)                                    \
    SC_ROW(algorithm, ALGORITHM, layout, LAYOUT, driver, f64, F64)
#include "../kernels.def"
#undef SC_KERNEL
    },
    peak_flops,
};
