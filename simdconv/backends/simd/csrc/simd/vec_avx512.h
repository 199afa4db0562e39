/* AVX-512 (F, BW, DQ, VL): 32 registers of 16 floats or 8 doubles; masks in their own registers. */
#include <immintrin.h>
#include <stddef.h>

#define VREGS 32
#define VLANES_f32 16
#define VLANES_f64 8
#define VHALVES_f32 1
#define VHALVES_f64 0
#define VUNROLLS 0
#define VNARROW 1
#define VSTREAMS 1
#define VPERMUTES 1
#define v_fma_into_f32 v_fma_f32
#define v_fma_into_f64 v_fma_f64
#define VFN static inline __attribute__((always_inline))

typedef __m512 vec_f32;
typedef __m512d vec_f64;
typedef __m512i index_f32;
typedef __m512i index_f64;
typedef __mmask16 mask_f32;
typedef __mmask8 mask_f64;

VFN vec_f32 v_zero_f32(void) { return _mm512_setzero_ps(); }
VFN vec_f64 v_zero_f64(void) { return _mm512_setzero_pd(); }
VFN vec_f32 v_set1_f32(float s) { return _mm512_set1_ps(s); }
VFN vec_f64 v_set1_f64(double s) { return _mm512_set1_pd(s); }
VFN vec_f32 v_load_f32(const float *p) { return _mm512_loadu_ps(p); }
VFN vec_f64 v_load_f64(const double *p) { return _mm512_loadu_pd(p); }
VFN void v_store_f32(float *p, vec_f32 v) { _mm512_storeu_ps(p, v); }
VFN void v_store_f64(double *p, vec_f64 v) { _mm512_storeu_pd(p, v); }
VFN void v_stream_f32(float *p, vec_f32 v) { _mm512_stream_ps(p, v); }
VFN void v_stream_f64(double *p, vec_f64 v) { _mm512_stream_pd(p, v); }
VFN vec_f32 v_bcast_f32(const float *p) { return _mm512_set1_ps(*p); }
VFN vec_f64 v_bcast_f64(const double *p) { return _mm512_set1_pd(*p); }
VFN mask_f32 v_mask_f32(ptrdiff_t n) { return n >= 16 ? 0xffff : (mask_f32)((1u << n) - 1); }
VFN mask_f64 v_mask_f64(ptrdiff_t n) { return n >= 8 ? 0xff : (mask_f64)((1u << n) - 1); }
VFN vec_f32 v_load_mask_f32(const float *p, mask_f32 m) { return _mm512_maskz_loadu_ps(m, p); }
VFN vec_f64 v_load_mask_f64(const double *p, mask_f64 m) { return _mm512_maskz_loadu_pd(m, p); }
VFN void v_store_mask_f32(float *p, vec_f32 v, mask_f32 m) { _mm512_mask_storeu_ps(p, m, v); }
VFN void v_store_mask_f64(double *p, vec_f64 v, mask_f64 m) { _mm512_mask_storeu_pd(p, m, v); }
VFN vec_f32 v_load_halves_f32(const float *p, const float *q) {
    return _mm512_mask_loadu_ps(_mm512_castps256_ps512(_mm256_loadu_ps(p)), 0xff00,
                                (const char *)q - 32);
}
VFN vec_f64 v_load_halves_f64(const double *p, const double *q) {
    return _mm512_insertf64x4(_mm512_castpd256_pd512(_mm256_loadu_pd(p)), _mm256_loadu_pd(q), 1);
}
VFN index_f32 v_index_f32(const int *lanes) { return _mm512_loadu_si512(lanes); }
VFN index_f64 v_index_f64(const int *lanes) {
    return _mm512_cvtepi32_epi64(_mm256_loadu_si256((const __m256i *)lanes));
}
VFN vec_f32 v_permute_f32(vec_f32 v, index_f32 i) { return _mm512_permutexvar_ps(i, v); }
VFN vec_f64 v_permute_f64(vec_f64 v, index_f64 i) { return _mm512_permutexvar_pd(i, v); }
VFN vec_f32 v_window_f32(vec_f32 a, vec_f32 b, ptrdiff_t n) {
    static const int lane[32] = {0,  1,  2,  3,  4,  5,  6,  7,  8,  9,  10, 11, 12, 13, 14, 15,
                                 16, 17, 18, 19, 20, 21, 22, 23, 24, 25, 26, 27, 28, 29, 30, 31};
    return _mm512_permutex2var_ps(a, _mm512_loadu_si512(lane + n), b);
}
VFN vec_f64 v_window_f64(vec_f64 a, vec_f64 b, ptrdiff_t n) {
    static const long long lane[16] = {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15};
    return _mm512_permutex2var_pd(a, _mm512_loadu_si512(lane + n), b);
}
VFN vec_f32 v_even_f32(vec_f32 a, vec_f32 b) {
    const __m512i even =
        _mm512_setr_epi32(0, 2, 4, 6, 8, 10, 12, 14, 16, 18, 20, 22, 24, 26, 28, 30);
    return _mm512_permutex2var_ps(a, even, b);
}
VFN vec_f64 v_even_f64(vec_f64 a, vec_f64 b) {
    return _mm512_permutex2var_pd(a, _mm512_setr_epi64(0, 2, 4, 6, 8, 10, 12, 14), b);
}
/* quarters of four vectors to where they belong: out[stride*q] = quarters q of a, b, c, d */
VFN void v_quarters_f32(__m512 a, __m512 b, __m512 c, __m512 d, __m512 *out, int stride) {
    const __m512 ab_even = _mm512_shuffle_f32x4(a, b, 0x88),
                 ab_odd = _mm512_shuffle_f32x4(a, b, 0xdd);
    const __m512 cd_even = _mm512_shuffle_f32x4(c, d, 0x88),
                 cd_odd = _mm512_shuffle_f32x4(c, d, 0xdd);
    out[0] = _mm512_shuffle_f32x4(ab_even, cd_even, 0x88);
    out[stride] = _mm512_shuffle_f32x4(ab_odd, cd_odd, 0x88);
    out[2 * stride] = _mm512_shuffle_f32x4(ab_even, cd_even, 0xdd);
    out[3 * stride] = _mm512_shuffle_f32x4(ab_odd, cd_odd, 0xdd);
}
VFN void v_transpose_f32(vec_f32 *r) {
    __m512 t[16];
#pragma GCC unroll 16
    for (int i = 0; i < 16; i += 2) {
        t[i] = _mm512_unpacklo_ps(r[i], r[i + 1]);
        t[i + 1] = _mm512_unpackhi_ps(r[i], r[i + 1]);
    }
#define PAIRS(op, a, b)                                                                            \
    _mm512_castpd_ps(_mm512_##op##_pd(_mm512_castps_pd(t[a]), _mm512_castps_pd(t[b])))
#pragma GCC unroll 4
    for (int i = 0; i < 16; i += 4) {
        r[i] = PAIRS(unpacklo, i, i + 2);
        r[i + 1] = PAIRS(unpackhi, i, i + 2);
        r[i + 2] = PAIRS(unpacklo, i + 1, i + 3);
        r[i + 3] = PAIRS(unpackhi, i + 1, i + 3);
    }
#undef PAIRS
#pragma GCC unroll 4
    for (int m = 0; m < 4; m++) v_quarters_f32(r[m], r[4 + m], r[8 + m], r[12 + m], t + m, 4);
#pragma GCC unroll 16
    for (int i = 0; i < 16; i++) r[i] = t[i];
}
VFN void v_transpose_f64(vec_f64 *r) {
    __m512 t[8], out[8];
#pragma GCC unroll 4
    for (int i = 0; i < 8; i += 2) {
        t[i] = _mm512_castpd_ps(_mm512_unpacklo_pd(r[i], r[i + 1]));
        t[i + 1] = _mm512_castpd_ps(_mm512_unpackhi_pd(r[i], r[i + 1]));
    }
#pragma GCC unroll 2
    for (int m = 0; m < 2; m++) v_quarters_f32(t[m], t[2 + m], t[4 + m], t[6 + m], out + m, 2);
#pragma GCC unroll 8
    for (int i = 0; i < 8; i++) r[i] = _mm512_castps_pd(out[i]);
}
VFN vec_f32 v_fma_f32(vec_f32 a, vec_f32 b, vec_f32 c) { return _mm512_fmadd_ps(a, b, c); }
VFN vec_f64 v_fma_f64(vec_f64 a, vec_f64 b, vec_f64 c) { return _mm512_fmadd_pd(a, b, c); }
VFN vec_f32 v_add_f32(vec_f32 a, vec_f32 b) { return _mm512_add_ps(a, b); }
VFN vec_f64 v_add_f64(vec_f64 a, vec_f64 b) { return _mm512_add_pd(a, b); }
/* in the lower half of a register, the upper one is anything: on cores that take two steps for a
 * whole one, half the time */
VFN vec_f32 v_load_low_f32(const float *p) { return _mm512_castps256_ps512(_mm256_loadu_ps(p)); }
VFN vec_f64 v_load_low_f64(const double *p) { return _mm512_castpd256_pd512(_mm256_loadu_pd(p)); }
VFN vec_f32 v_load_low_mask_f32(const float *p, mask_f32 m) {
    return _mm512_castps256_ps512(_mm256_maskz_loadu_ps((__mmask8)m, p));
}
VFN vec_f64 v_load_low_mask_f64(const double *p, mask_f64 m) {
    return _mm512_castpd256_pd512(_mm256_maskz_loadu_pd(m, p));
}
VFN vec_f32 v_bcast_low_f32(const float *p) { return _mm512_castps256_ps512(_mm256_set1_ps(*p)); }
VFN vec_f64 v_bcast_low_f64(const double *p) { return _mm512_castpd256_pd512(_mm256_set1_pd(*p)); }
VFN vec_f32 v_fma_low_f32(vec_f32 a, vec_f32 b, vec_f32 c) {
    return _mm512_castps256_ps512(_mm256_fmadd_ps(
        _mm512_castps512_ps256(a), _mm512_castps512_ps256(b), _mm512_castps512_ps256(c)));
}
VFN vec_f64 v_fma_low_f64(vec_f64 a, vec_f64 b, vec_f64 c) {
    return _mm512_castpd256_pd512(_mm256_fmadd_pd(
        _mm512_castpd512_pd256(a), _mm512_castpd512_pd256(b), _mm512_castpd512_pd256(c)));
}
/* max and min return their second operand when either is NaN */
VFN vec_f32 v_clip_f32(vec_f32 x, vec_f32 lo, vec_f32 hi) {
    return _mm512_min_ps(hi, _mm512_max_ps(lo, x));
}
VFN vec_f64 v_clip_f64(vec_f64 x, vec_f64 lo, vec_f64 hi) {
    return _mm512_min_pd(hi, _mm512_max_pd(lo, x));
}
VFN vec_f32 v_leaky_f32(vec_f32 x, vec_f32 slope) {
    return _mm512_mask_mul_ps(x, _mm512_cmp_ps_mask(x, _mm512_setzero_ps(), _CMP_LT_OQ), x, slope);
}
VFN vec_f64 v_leaky_f64(vec_f64 x, vec_f64 slope) {
    return _mm512_mask_mul_pd(x, _mm512_cmp_pd_mask(x, _mm512_setzero_pd(), _CMP_LT_OQ), x, slope);
}
