/* NEON (AArch64): 32 registers of 4 floats or 2 doubles; no masked access, tails go element by
 * element. */
#include <arm_neon.h>
#include <stddef.h>

#include "transpose_16.h"

#define VREGS 32
#define VLANES_f32 4
#define VLANES_f64 2
#define VHALVES_f32 0
#define VHALVES_f64 0
#define VUNROLLS 0
#define VNARROW 0
#define VSTREAMS 0
#define VPERMUTES 1
#define v_fma_into_f32 v_fma_f32
#define v_fma_into_f64 v_fma_f64
#define VFN static inline __attribute__((always_inline))

typedef float32x4_t vec_f32;
typedef float64x2_t vec_f64;
typedef uint8x16_t index_f32;
typedef uint8x16_t index_f64;
typedef ptrdiff_t mask_f32;
typedef ptrdiff_t mask_f64;

VFN vec_f32 v_zero_f32(void) { return vdupq_n_f32(0); }
VFN vec_f64 v_zero_f64(void) { return vdupq_n_f64(0); }
VFN vec_f32 v_set1_f32(float s) { return vdupq_n_f32(s); }
VFN vec_f64 v_set1_f64(double s) { return vdupq_n_f64(s); }
VFN vec_f32 v_load_f32(const float *p) { return vld1q_f32(p); }
VFN vec_f64 v_load_f64(const double *p) { return vld1q_f64(p); }
VFN void v_store_f32(float *p, vec_f32 v) { vst1q_f32(p, v); }
VFN void v_store_f64(double *p, vec_f64 v) { vst1q_f64(p, v); }
VFN void v_stream_f32(float *p, vec_f32 v) { vst1q_f32(p, v); }
VFN void v_stream_f64(double *p, vec_f64 v) { vst1q_f64(p, v); }
VFN vec_f32 v_bcast_f32(const float *p) { return vld1q_dup_f32(p); }
VFN vec_f64 v_bcast_f64(const double *p) { return vld1q_dup_f64(p); }
VFN mask_f32 v_mask_f32(ptrdiff_t n) { return n; }
VFN mask_f64 v_mask_f64(ptrdiff_t n) { return n; }
VFN vec_f32 v_load_mask_f32(const float *p, mask_f32 m) {
    vec_f32 v = vdupq_n_f32(0);
    if (m > 3) return vld1q_f32(p);
    if (m > 0) v = vld1q_lane_f32(p, v, 0);
    if (m > 1) v = vld1q_lane_f32(p + 1, v, 1);
    if (m > 2) v = vld1q_lane_f32(p + 2, v, 2);
    return v;
}
VFN vec_f64 v_load_mask_f64(const double *p, mask_f64 m) {
    vec_f64 v = vdupq_n_f64(0);
    if (m > 1) return vld1q_f64(p);
    return m > 0 ? vld1q_lane_f64(p, v, 0) : v;
}
VFN void v_store_mask_f32(float *p, vec_f32 v, mask_f32 m) {
    if (m > 3) {
        vst1q_f32(p, v);
        return;
    }
    if (m > 0) vst1q_lane_f32(p, v, 0);
    if (m > 1) vst1q_lane_f32(p + 1, v, 1);
    if (m > 2) vst1q_lane_f32(p + 2, v, 2);
}
VFN void v_store_mask_f64(double *p, vec_f64 v, mask_f64 m) {
    if (m > 1) vst1q_f64(p, v);
    else if (m > 0) vst1q_lane_f64(p, v, 0);
}
VFN vec_f32 v_load_halves_f32(const float *p, const float *q) {
    return vcombine_f32(vld1_f32(p), vld1_f32(q));
}
VFN vec_f64 v_load_halves_f64(const double *p, const double *q) {
    return vcombine_f64(vld1_f64(p), vld1_f64(q));
}
VFN index_f32 v_index_f32(const int *lanes) { /* of bytes */
    uint8_t bytes[16];
    for (int i = 0; i < 16; i++) bytes[i] = (uint8_t)(lanes[i / 4] * 4 + i % 4);
    return vld1q_u8(bytes);
}
VFN index_f64 v_index_f64(const int *lanes) {
    uint8_t bytes[16];
    for (int i = 0; i < 16; i++) bytes[i] = (uint8_t)(lanes[i / 8] * 8 + i % 8);
    return vld1q_u8(bytes);
}
VFN vec_f32 v_permute_f32(vec_f32 v, index_f32 i) {
    return vreinterpretq_f32_u8(vqtbl1q_u8(vreinterpretq_u8_f32(v), i));
}
VFN vec_f64 v_permute_f64(vec_f64 v, index_f64 i) {
    return vreinterpretq_f64_u8(vqtbl1q_u8(vreinterpretq_u8_f64(v), i));
}
VFN uint8x16_t v_bytes(uint8x16_t a, uint8x16_t b, ptrdiff_t first) {
    static const uint8_t byte[32] = {0,  1,  2,  3,  4,  5,  6,  7,  8,  9,  10,
                                     11, 12, 13, 14, 15, 16, 17, 18, 19, 20, 21,
                                     22, 23, 24, 25, 26, 27, 28, 29, 30, 31};
    return vqtbl2q_u8((uint8x16x2_t){{a, b}}, vld1q_u8(byte + first));
}
VFN vec_f32 v_window_f32(vec_f32 a, vec_f32 b, ptrdiff_t n) {
    return vreinterpretq_f32_u8(
        v_bytes(vreinterpretq_u8_f32(a), vreinterpretq_u8_f32(b), n * (ptrdiff_t)sizeof(float)));
}
VFN vec_f64 v_window_f64(vec_f64 a, vec_f64 b, ptrdiff_t n) {
    return vreinterpretq_f64_u8(
        v_bytes(vreinterpretq_u8_f64(a), vreinterpretq_u8_f64(b), n * (ptrdiff_t)sizeof(double)));
}
VFN vec_f32 v_even_f32(vec_f32 a, vec_f32 b) { return vuzp1q_f32(a, b); }
VFN vec_f64 v_even_f64(vec_f64 a, vec_f64 b) { return vuzp1q_f64(a, b); }
VFN void v_transpose_f32(vec_f32 *r) { TRANSPOSE_4X4(vec_f32, r); }
VFN void v_transpose_f64(vec_f64 *r) { TRANSPOSE_2X2(vec_f64, r); }
VFN vec_f32 v_fma_f32(vec_f32 a, vec_f32 b, vec_f32 c) { return vfmaq_f32(c, a, b); }
VFN vec_f64 v_fma_f64(vec_f64 a, vec_f64 b, vec_f64 c) { return vfmaq_f64(c, a, b); }
VFN vec_f32 v_add_f32(vec_f32 a, vec_f32 b) { return vaddq_f32(a, b); }
VFN vec_f64 v_add_f64(vec_f64 a, vec_f64 b) { return vaddq_f64(a, b); }
/* vmax and vmin return NaN when either operand is */
VFN vec_f32 v_clip_f32(vec_f32 x, vec_f32 lo, vec_f32 hi) {
    return vminq_f32(vmaxq_f32(x, lo), hi);
}
VFN vec_f64 v_clip_f64(vec_f64 x, vec_f64 lo, vec_f64 hi) {
    return vminq_f64(vmaxq_f64(x, lo), hi);
}
VFN vec_f32 v_leaky_f32(vec_f32 x, vec_f32 slope) {
    return vbslq_f32(vcltzq_f32(x), vmulq_f32(x, slope), x);
}
VFN vec_f64 v_leaky_f64(vec_f64 x, vec_f64 slope) {
    return vbslq_f64(vcltzq_f64(x), vmulq_f64(x, slope), x);
}
