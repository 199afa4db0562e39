#include "../simd/vec_baseline.h"

#define SC_UNIT baseline
#include "unit.h"
