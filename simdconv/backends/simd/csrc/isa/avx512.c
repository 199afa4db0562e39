#include "../simd/vec_avx512.h"

#define SC_UNIT avx512
#include "unit.h"
