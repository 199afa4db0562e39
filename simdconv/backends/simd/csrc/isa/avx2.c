#include "../simd/vec_avx2.h"

#define SC_UNIT avx2
#include "unit.h"
