/* AVX2 with FMA: 16 registers of 8 floats or 4 doubles. A mask is a vector of sign bits, for loads,
 * and a count: a masked store is many operations on some processors, halves of halves are few. */
#include <immintrin.h>
#include <stddef.h>

#define VREGS 16
#define VLANES_f32 8
#define VLANES_f64 4
#define VHALVES_f32 0
#define VHALVES_f64 0
#define VUNROLLS 1
#define VNARROW 0
#define VSTREAMS 1
#define VPERMUTES 1
#define VFN static inline __attribute__((always_inline))

typedef __m256 vec_f32;
typedef __m256d vec_f64;
typedef __m256i index_f32;
typedef __m256i index_f64;
typedef struct {
    __m256i lanes;
    ptrdiff_t count;
} mask_f32;
typedef mask_f32 mask_f64;

VFN vec_f32 v_zero_f32(void) { return _mm256_setzero_ps(); }
VFN vec_f64 v_zero_f64(void) { return _mm256_setzero_pd(); }
VFN vec_f32 v_set1_f32(float s) { return _mm256_set1_ps(s); }
VFN vec_f64 v_set1_f64(double s) { return _mm256_set1_pd(s); }
VFN vec_f32 v_load_f32(const float *p) { return _mm256_loadu_ps(p); }
VFN vec_f64 v_load_f64(const double *p) { return _mm256_loadu_pd(p); }
VFN void v_store_f32(float *p, vec_f32 v) { _mm256_storeu_ps(p, v); }
VFN void v_store_f64(double *p, vec_f64 v) { _mm256_storeu_pd(p, v); }
VFN void v_stream_f32(float *p, vec_f32 v) { _mm256_stream_ps(p, v); }
VFN void v_stream_f64(double *p, vec_f64 v) { _mm256_stream_pd(p, v); }
VFN vec_f32 v_bcast_f32(const float *p) { return _mm256_broadcast_ss(p); }
VFN vec_f64 v_bcast_f64(const double *p) { return _mm256_broadcast_sd(p); }
VFN mask_f32 v_mask_f32(ptrdiff_t n) {
    const ptrdiff_t count = n > 8 ? 8 : n < 0 ? 0 : n;
    const __m256i lane = _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7);
    return (mask_f32){_mm256_cmpgt_epi32(_mm256_set1_epi32((int)count), lane), count};
}
VFN mask_f64 v_mask_f64(ptrdiff_t n) {
    const ptrdiff_t count = n > 4 ? 4 : n < 0 ? 0 : n;
    const __m256i lane = _mm256_setr_epi64x(0, 1, 2, 3);
    return (mask_f64){_mm256_cmpgt_epi64(_mm256_set1_epi64x(count), lane), count};
}
VFN vec_f32 v_load_mask_f32(const float *p, mask_f32 m) { return _mm256_maskload_ps(p, m.lanes); }
VFN vec_f64 v_load_mask_f64(const double *p, mask_f64 m) { return _mm256_maskload_pd(p, m.lanes); }
VFN void v_store_mask_f32(float *p, vec_f32 v, mask_f32 m) {
    __m128 part = _mm256_castps256_ps128(v);
    if (m.count == 8) {
        _mm256_storeu_ps(p, v);
        return;
    }
    if (m.count & 4) {
        _mm_storeu_ps(p, part);
        part = _mm256_extractf128_ps(v, 1);
        p += 4;
    }
    if (m.count & 2) {
        _mm_storel_pi((__m64 *)p, part);
        part = _mm_movehl_ps(part, part);
        p += 2;
    }
    if (m.count & 1) _mm_store_ss(p, part);
}
VFN void v_store_mask_f64(double *p, vec_f64 v, mask_f64 m) { /* twice as many halves */
    m.count *= 2;
    v_store_mask_f32((float *)p, _mm256_castpd_ps(v), m);
}
VFN vec_f32 v_load_halves_f32(const float *p, const float *q) {
    return _mm256_insertf128_ps(_mm256_castps128_ps256(_mm_loadu_ps(p)), _mm_loadu_ps(q), 1);
}
VFN vec_f64 v_load_halves_f64(const double *p, const double *q) {
    return _mm256_insertf128_pd(_mm256_castpd128_pd256(_mm_loadu_pd(p)), _mm_loadu_pd(q), 1);
}
VFN index_f32 v_index_f32(const int *lanes) { return _mm256_loadu_si256((const __m256i *)lanes); }
VFN index_f64 v_index_f64(const int *lanes) { /* of the halves of each double */
    const __m256i i = _mm256_cvtepi32_epi64(_mm_loadu_si128((const __m128i *)lanes));
    const __m256i twice = _mm256_add_epi64(i, i);
    return _mm256_or_si256(twice,
                           _mm256_slli_epi64(_mm256_add_epi64(twice, _mm256_set1_epi64x(1)), 32));
}
VFN vec_f32 v_permute_f32(vec_f32 v, index_f32 i) { return _mm256_permutevar8x32_ps(v, i); }
VFN vec_f64 v_permute_f64(vec_f64 v, index_f64 i) {
    return _mm256_castps_pd(_mm256_permutevar8x32_ps(_mm256_castpd_ps(v), i));
}
VFN vec_f32 v_window_f32(vec_f32 a, vec_f32 b, ptrdiff_t n) { /* both rotated by n */
    static const int lane[16] = {0, 1, 2, 3, 4, 5, 6, 7, 0, 1, 2, 3, 4, 5, 6, 7};
    static const int second[16] = {0, 0, 0, 0, 0, 0, 0, 0, -1, -1, -1, -1, -1, -1, -1, -1};
    const __m256i i = _mm256_loadu_si256((const __m256i *)(const void *)(lane + n));
    const __m256i from_b = _mm256_loadu_si256((const __m256i *)(const void *)(second + n));
    return _mm256_blendv_ps(_mm256_permutevar8x32_ps(a, i), _mm256_permutevar8x32_ps(b, i),
                            _mm256_castsi256_ps(from_b));
}
VFN vec_f64 v_window_f64(vec_f64 a, vec_f64 b, ptrdiff_t n) {
    return _mm256_castps_pd(v_window_f32(_mm256_castpd_ps(a), _mm256_castpd_ps(b), 2 * n));
}
VFN vec_f32 v_even_f32(vec_f32 a, vec_f32 b) {
    const __m256d pairs = _mm256_castps_pd(_mm256_shuffle_ps(a, b, 0x88));
    return _mm256_castpd_ps(_mm256_permute4x64_pd(pairs, 0xd8));
}
VFN vec_f64 v_even_f64(vec_f64 a, vec_f64 b) {
    return _mm256_permute4x64_pd(_mm256_unpacklo_pd(a, b), 0xd8);
}
VFN void v_transpose_f32(vec_f32 *r) {
    __m256 t[8];
#pragma GCC unroll 4
    for (int i = 0; i < 8; i += 2) {
        t[i] = _mm256_unpacklo_ps(r[i], r[i + 1]);
        t[i + 1] = _mm256_unpackhi_ps(r[i], r[i + 1]);
    }
#pragma GCC unroll 2
    for (int i = 0; i < 8; i += 4) {
        r[i] = _mm256_shuffle_ps(t[i], t[i + 2], 0x44);
        r[i + 1] = _mm256_shuffle_ps(t[i], t[i + 2], 0xee);
        r[i + 2] = _mm256_shuffle_ps(t[i + 1], t[i + 3], 0x44);
        r[i + 3] = _mm256_shuffle_ps(t[i + 1], t[i + 3], 0xee);
    }
#pragma GCC unroll 4
    for (int m = 0; m < 4; m++) {
        const __m256 low = r[m], high = r[4 + m];
        r[m] = _mm256_permute2f128_ps(low, high, 0x20);
        r[4 + m] = _mm256_permute2f128_ps(low, high, 0x31);
    }
}
VFN void v_transpose_f64(vec_f64 *r) {
    const __m256d a = _mm256_unpacklo_pd(r[0], r[1]), b = _mm256_unpackhi_pd(r[0], r[1]);
    const __m256d c = _mm256_unpacklo_pd(r[2], r[3]), d = _mm256_unpackhi_pd(r[2], r[3]);
    r[0] = _mm256_permute2f128_pd(a, c, 0x20);
    r[1] = _mm256_permute2f128_pd(b, d, 0x20);
    r[2] = _mm256_permute2f128_pd(a, c, 0x31);
    r[3] = _mm256_permute2f128_pd(b, d, 0x31);
}
VFN vec_f32 v_fma_f32(vec_f32 a, vec_f32 b, vec_f32 c) { return _mm256_fmadd_ps(a, b, c); }
VFN vec_f64 v_fma_f64(vec_f64 a, vec_f64 b, vec_f64 c) { return _mm256_fmadd_pd(a, b, c); }
/* The compiler gives sums of unrolled steps other registers, moves them back, and spills some. */
VFN vec_f32 v_fma_into_f32(vec_f32 a, vec_f32 b, vec_f32 c) {
    __asm__("vfmadd231ps %2, %1, %0" : "+x"(c) : "x"(a), "x"(b));
    return c;
}
VFN vec_f64 v_fma_into_f64(vec_f64 a, vec_f64 b, vec_f64 c) {
    __asm__("vfmadd231pd %2, %1, %0" : "+x"(c) : "x"(a), "x"(b));
    return c;
}
VFN vec_f32 v_add_f32(vec_f32 a, vec_f32 b) { return _mm256_add_ps(a, b); }
VFN vec_f64 v_add_f64(vec_f64 a, vec_f64 b) { return _mm256_add_pd(a, b); }
/* max and min return their second operand when either is NaN */
VFN vec_f32 v_clip_f32(vec_f32 x, vec_f32 lo, vec_f32 hi) {
    return _mm256_min_ps(hi, _mm256_max_ps(lo, x));
}
VFN vec_f64 v_clip_f64(vec_f64 x, vec_f64 lo, vec_f64 hi) {
    return _mm256_min_pd(hi, _mm256_max_pd(lo, x));
}
VFN vec_f32 v_leaky_f32(vec_f32 x, vec_f32 slope) {
    return _mm256_blendv_ps(x, _mm256_mul_ps(x, slope),
                            _mm256_cmp_ps(x, _mm256_setzero_ps(), _CMP_LT_OQ));
}
VFN vec_f64 v_leaky_f64(vec_f64 x, vec_f64 slope) {
    return _mm256_blendv_pd(x, _mm256_mul_pd(x, slope),
                            _mm256_cmp_pd(x, _mm256_setzero_pd(), _CMP_LT_OQ));
}
