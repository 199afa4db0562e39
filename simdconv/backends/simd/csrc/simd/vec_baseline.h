/* The floor: vectors of 16 bytes in the compiler's own vector extension, so that any processor has
 * it (SSE2 on x86-64). A multiply and an add, each rounded: no FMA is assumed. 16 registers are
 * assumed. */
#include <stddef.h>
#include <string.h>

#include "transpose_16.h"

#define VREGS 16
#define VLANES_f32 4
#define VLANES_f64 2
#define VHALVES_f32 0
#define VHALVES_f64 0
#define VUNROLLS 0
#define VNARROW 0
#define VSTREAMS 0
#define VPERMUTES 0
#define v_fma_into_f32 v_fma_f32
#define v_fma_into_f64 v_fma_f64
#define VFN static inline __attribute__((always_inline))

typedef float vec_f32 __attribute__((vector_size(16)));
typedef double vec_f64 __attribute__((vector_size(16)));
typedef struct {
    int lane[4];
} index_f32;
typedef index_f32 index_f64;
typedef ptrdiff_t mask_f32;
typedef ptrdiff_t mask_f64;

#define VEC_BASELINE(t, scalar, lanes, ...)                                                        \
    VFN vec_##t v_set1_##t(scalar s) { return (vec_##t){__VA_ARGS__}; }                            \
    VFN vec_##t v_zero_##t(void) { return v_set1_##t(0); }                                         \
    VFN vec_##t v_load_##t(const scalar *p) {                                                      \
        vec_##t v;                                                                                 \
        memcpy(&v, p, sizeof v);                                                                   \
        return v;                                                                                  \
    }                                                                                              \
    VFN void v_store_##t(scalar *p, vec_##t v) { memcpy(p, &v, sizeof v); }                        \
    VFN void v_stream_##t(scalar *p, vec_##t v) { memcpy(p, &v, sizeof v); }                       \
    VFN vec_##t v_bcast_##t(const scalar *p) { return v_set1_##t(*p); }                            \
    VFN mask_##t v_mask_##t(ptrdiff_t n) { return n > (lanes) ? (lanes) : n; }                     \
    VFN vec_##t v_load_mask_##t(const scalar *p, mask_##t m) {                                     \
        vec_##t v = v_zero_##t();                                                                  \
        for (ptrdiff_t i = 0; i < m; i++) v[i] = p[i];                                             \
        return v;                                                                                  \
    }                                                                                              \
    VFN void v_store_mask_##t(scalar *p, vec_##t v, mask_##t m) {                                  \
        for (ptrdiff_t i = 0; i < m; i++) p[i] = v[i];                                             \
    }                                                                                              \
    VFN vec_##t v_load_halves_##t(const scalar *p, const scalar *q) {                              \
        vec_##t v;                                                                                 \
        memcpy(&v, p, sizeof v / 2);                                                               \
        memcpy((char *)&v + sizeof v / 2, q, sizeof v / 2);                                        \
        return v;                                                                                  \
    }                                                                                              \
    VFN index_##t v_index_##t(const int *from) {                                                   \
        index_##t index = {{0}};                                                                   \
        for (int i = 0; i < (lanes); i++) index.lane[i] = from[i];                                 \
        return index;                                                                              \
    }                                                                                              \
    VFN vec_##t v_permute_##t(vec_##t v, index_##t index) {                                        \
        vec_##t to = v;                                                                            \
        for (int i = 0; i < (lanes); i++) to[i] = v[index.lane[i]];                                \
        return to;                                                                                 \
    }                                                                                              \
    VFN vec_##t v_window_##t(vec_##t a, vec_##t b, ptrdiff_t n) {                                  \
        scalar both[2 * (lanes)];                                                                  \
        v_store_##t(both, a);                                                                      \
        v_store_##t(both + (lanes), b);                                                            \
        return v_load_##t(both + n);                                                               \
    }                                                                                              \
    VFN vec_##t v_even_##t(vec_##t a, vec_##t b) {                                                 \
        for (int i = 0; i < (lanes) / 2; i++) a[i] = a[2 * i];                                     \
        for (int i = 0; i < (lanes) / 2; i++) a[i + (lanes) / 2] = b[2 * i];                       \
        return a;                                                                                  \
    }                                                                                              \
    VFN vec_##t v_fma_##t(vec_##t a, vec_##t b, vec_##t c) { return a * b + c; }                   \
    VFN vec_##t v_add_##t(vec_##t a, vec_##t b) { return a + b; }                                  \
    VFN vec_##t v_clip_##t(vec_##t x, vec_##t lo, vec_##t hi) {                                    \
        for (int i = 0; i < (lanes); i++)                                                          \
            x[i] = x[i] < lo[i] ? lo[i] : x[i] > hi[i] ? hi[i] : x[i];                             \
        return x;                                                                                  \
    }                                                                                              \
    VFN vec_##t v_leaky_##t(vec_##t x, vec_##t slope) {                                            \
        for (int i = 0; i < (lanes); i++) x[i] = x[i] < 0 ? x[i] * slope[i] : x[i];                \
        return x;                                                                                  \
    }

VEC_BASELINE(f32, float, 4, s, s, s, s)
VEC_BASELINE(f64, double, 2, s, s)
VFN void v_transpose_f32(vec_f32 *r) { TRANSPOSE_4X4(vec_f32, r); }
VFN void v_transpose_f64(vec_f64 *r) { TRANSPOSE_2X2(vec_f64, r); }
