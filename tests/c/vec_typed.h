/* The vector vocabulary of one ISA and one element type, held against plain loops. Included twice by
 * vec_isa.c, after simd/vec.h has bound the generic names to the type. */

static T FN(number)(int i) { return (T)(i % 2 ? -i - 1 : i + 1); }

static void FN(same)(vec v, const T *expected, const char *what, int n) {
    T lanes[VL];
    v_store(lanes, v);
    for (int i = 0; i < VL; i++)
        CHECK(lanes[i] == expected[i] || (lanes[i] != lanes[i] && expected[i] != expected[i]),
              "%s, %d: lane %d is %g, expected %g", what, n, i, (double)lanes[i],
              (double)expected[i]);
}

static void FN(test_whole)(void) {
    T from[2 * VL + 1], to[VL + 2], expected[VL];
    for (int i = 0; i < 2 * VL + 1; i++) from[i] = FN(number)(i);
    CHECK(sizeof(vec) == VL * sizeof(T), "%zu bytes", sizeof(vec));
    memset(expected, 0, sizeof expected);
    FN(same)(v_zero(), expected, "v_zero", 0);
    for (int i = 0; i < VL; i++) expected[i] = (T)-7;
    FN(same)(v_set1((T)-7), expected, "v_set1", 0);
    for (int i = 0; i < VL; i++) expected[i] = from[3];
    FN(same)(v_bcast(from + 3), expected, "v_bcast", 0);
    for (int offset = 0; offset < 2; offset++) { /* no alignment is assumed */
        FN(same)(v_load(from + offset), from + offset, "v_load", offset);
        for (int i = 0; i < VL + 2; i++) to[i] = (T)99;
        v_store(to + offset, v_load(from));
        for (int i = 0; i < VL; i++) CHECK(to[offset + i] == from[i], "v_store, lane %d", i);
        CHECK(to[offset ? 0 : VL] == (T)99 && to[VL + 1] == (T)99, "v_store wrote past its lanes");
    }
    memcpy(expected, from + 1, sizeof(T) * VL / 2);
    memcpy(expected + VL / 2, from + VL, sizeof(T) * VL / 2);
    FN(same)(v_load_halves(from + 1, from + VL), expected, "v_load_halves", 0);
}

static void FN(test_shuffles)(void) {
    T from[2 * VL], expected[VL];
    int lanes[VL];
    for (int i = 0; i < 2 * VL; i++) from[i] = FN(number)(i);
    for (int i = 0; i < VL; i++) expected[i] = from[2 * i];
    FN(same)(v_even(v_load(from), v_load(from + VL)), expected, "v_even", 0);
    for (int n = 0; n <= VL; n++)
        FN(same)(v_window(v_load(from), v_load(from + VL), n), from + n, "v_window", n);
    for (int turn = 0; turn < VL; turn++) {
        for (int i = 0; i < VL; i++) {
            lanes[i] = (i / 2 * 3 + turn) % VL;
            expected[i] = from[lanes[i]];
        }
        FN(same)(v_permute(v_load(from), v_index(lanes)), expected, "v_permute", turn);
    }
}

/* Masked access reads and writes the first n lanes, and next to an unreadable page nothing else. */
static void FN(test_masks)(void) {
    static const ptrdiff_t beyond[] = {VL + 1, 2 * VL, 1000, (ptrdiff_t)1 << 33};
    T from[VL], to[VL], expected[VL];
    for (int i = 0; i < VL; i++) from[i] = FN(number)(i);
    for (int n = 0; n <= VL; n++) {
        guarded block = guarded_alloc((size_t)n * sizeof(T), 0);
        T *edge = (T *)(void *)block.data;
        vec v;
        memcpy(edge, from, (size_t)n * sizeof(T));
        v = v_load_mask(edge, v_mask(n));
        memset(expected, 0, sizeof expected);
        memcpy(expected, from, (size_t)n * sizeof(T));
        FN(same)(v, expected, "v_load_mask", n);
        v_store_mask(edge, v_set1((T)5), v_mask(n));
        for (int i = 0; i < n; i++) CHECK(edge[i] == (T)5, "v_store_mask at a guard, lane %d", i);
        guarded_free(block);
        for (int i = 0; i < VL; i++) to[i] = (T)99;
        v_store_mask(to, v_load(from), v_mask(n));
        for (int i = 0; i < VL; i++)
            CHECK(to[i] == (i < n ? from[i] : (T)99), "v_store_mask of %d, lane %d", n, i);
    }
    for (size_t i = 0; i < sizeof beyond / sizeof *beyond; i++) {
        FN(same)(v_load_mask(from, v_mask(beyond[i])), from, "v_load_mask past VL", (int)i);
        memset(to, 0, sizeof to);
        v_store_mask(to, v_load(from), v_mask(beyond[i]));
        CHECK(!memcmp(to, from, sizeof to), "v_store_mask past VL, %d", (int)i);
    }
}

static void FN(test_arithmetic)(void) {
    const T big = (T)INFINITY, nan = (T)NAN, step = SC_IS_F64 ? (T)DBL_EPSILON : (T)FLT_EPSILON;
    T a[VL], b[VL], c[VL], expected[VL];
    for (int i = 0; i < VL; i++) {
        a[i] = FN(number)(i);
        b[i] = FN(number)(3 * i + 2);
        c[i] = FN(number)(5 * i);
        expected[i] = a[i] * b[i] + c[i]; /* whole numbers: exact, fused or not */
    }
    FN(same)(v_fma(v_load(a), v_load(b), v_load(c)), expected, "v_fma", 0);
    FN(same)(v_fma_into(v_load(a), v_load(b), v_load(c)), expected, "v_fma_into", 0);
    for (int i = 0; i < VL; i++) expected[i] = a[i] + b[i];
    FN(same)(v_add(v_load(a), v_load(b)), expected, "v_add", 0);
    /* (1 + u)(1 - u) - 1 is -u*u in one rounding, 0 in two */
    for (int i = 0; i < VL; i++) expected[i] = VEC_IS_FUSED ? -step * step : (T)0;
    FN(same)(v_fma(v_set1(1 + step), v_set1(1 - step), v_set1((T)-1)), expected, "v_fma rounding",
             0);
    FN(same)(v_fma_into(v_set1(1 + step), v_set1(1 - step), v_set1((T)-1)), expected,
             "v_fma_into rounding", 0);
    for (int lane = 0; lane < VL; lane++) { /* a NaN or Inf stays in its lane */
        memcpy(expected, a, sizeof expected);
        memcpy(c, a, sizeof c);
        c[lane] = expected[lane] = lane % 2 ? nan : big;
        FN(same)(v_fma(v_zero(), v_set1((T)2), v_load(c)), expected, "v_fma of NaN, Inf", lane);
        FN(same)(v_add(v_load(c), v_zero()), expected, "v_add of NaN, Inf", lane);
    }
    for (int i = 0; i < VL; i++) expected[i] = nan;
    FN(same)(v_fma(v_zero(), v_set1(big), v_zero()), expected, "v_fma, 0 * Inf", 0);
}

/* half a register: what is in the other one is nobody's */
static void FN(test_low)(void) {
    T a[VL], b[VL], c[VL], expected[VL], lanes[VL];
    enum { HALF = VL / 2 };
    for (int i = 0; i < VL; i++) {
        a[i] = FN(number)(i);
        b[i] = FN(number)(3 * i + 2);
        c[i] = i < HALF ? FN(number)(5 * i) : (T)NAN;
        expected[i] = a[i] * b[i] + c[i];
    }
#define SAME_LOW(v, what)                                                                          \
    v_store(lanes, v);                                                                             \
    for (int i = 0; i < HALF; i++) CHECK(lanes[i] == expected[i], "%s, lane %d", what, i)
    SAME_LOW(v_fma_low(v_load_low(a), v_load_low(b), v_load(c)), "v_fma_low");
    for (int i = 0; i < VL; i++) expected[i] = a[1];
    SAME_LOW(v_bcast_low(a + 1), "v_bcast_low");
    for (int n = 0; n <= HALF; n++) {
        for (int i = 0; i < VL; i++) expected[i] = i < n ? a[i] : (T)0;
        SAME_LOW(v_load_low_mask(a, v_mask(n)), "v_load_low_mask");
    }
#undef SAME_LOW
}

static void FN(test_activations)(void) {
    const T big = (T)INFINITY, nan = (T)NAN;
    const T values[] = {nan,     -big, big, (T)-0.0, 0,   -1, 1, (T)2.5,
                        (T)-2.5, 6,    7,   (T)1e30, nan, -6, 3, -3};
    const T bounds[][2] = {{0, big}, {0, 6}, {-1, 1}, {-big, big}, {2, 2}, {-3, -1}};
    const T slopes[] = {0, (T)0.25, 1, -2, big};
    enum { N_VALUES = sizeof values / sizeof *values };
    T x[VL], expected[VL];
    for (int first = 0; first < N_VALUES; first++) {
        for (int i = 0; i < VL; i++) x[i] = values[(first + i) % N_VALUES];
        for (size_t k = 0; k < sizeof bounds / sizeof *bounds; k++) {
            T lo = bounds[k][0], hi = bounds[k][1];
            for (int i = 0; i < VL; i++) expected[i] = x[i] < lo ? lo : x[i] > hi ? hi : x[i];
            FN(same)(v_clip(v_load(x), v_set1(lo), v_set1(hi)), expected, "v_clip", (int)k);
        }
        for (size_t k = 0; k < sizeof slopes / sizeof *slopes; k++) {
            for (int i = 0; i < VL; i++) expected[i] = x[i] < 0 ? x[i] * slopes[k] : x[i];
            FN(same)(v_leaky(v_load(x), v_set1(slopes[k])), expected, "v_leaky", (int)k);
        }
    }
}

static void FN(test)(void) {
    FN(test_whole)();
    FN(test_shuffles)();
    FN(test_masks)();
    FN(test_arithmetic)();
    FN(test_low)();
    FN(test_activations)();
}
