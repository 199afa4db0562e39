#include "../simd/vec_neon.h"

#define SC_UNIT neon
#include "unit.h"
