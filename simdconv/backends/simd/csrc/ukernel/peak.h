/* The most FMAs this ISA can do: as many independent sums as the register tile, nothing from
 * memory. */
static double FN(peak)(ptrdiff_t iterations) {
    enum { SUMS = TILE_ROWS * TILE_VECTORS - (VREGS == 32 ? 4 : 0) };
    vec sum[SUMS], factor = v_set1((T)0.999), term = v_set1((T)1e-3);
    T out[VL];
#pragma GCC unroll 32
    for (int i = 0; i < SUMS; i++) sum[i] = v_set1((T)i);
    for (ptrdiff_t k = 0; k < iterations; k++) {
#pragma GCC unroll 32
        for (int i = 0; i < SUMS; i++) sum[i] = v_fma(sum[i], factor, term);
    }
    for (int i = 1; i < SUMS; i++) sum[0] = v_add(sum[0], sum[i]);
    v_store(out, sum[0]);
    volatile T keep = out[0];
    (void)keep;
    return 2.0 * SUMS * VL * (double)iterations;
}
