/* The generic names of the vector vocabulary, bound to one element type.
 *
 * A vec_<isa>.h defines, for each suffix t in {f32, f64}:
 *   vec_t, mask_t          a register of VLANES_t elements; a mask for its first n lanes
 *   VREGS                  how many registers there are
 *   v_zero, v_set1(s), v_load(p), v_store(p, v), v_bcast(p)
 *   v_stream(p, v)         a store past the caches where VSTREAMS is 1, p aligned; core/parallel.c
 *                          waits for them
 *   v_mask(n), v_load_mask(p, m), v_store_mask(p, v, m)    lanes >= n are not touched in memory
 *   v_load_halves(p, q)    lower half from p, upper half from q (where VHALVES_t is 1)
 *   v_index(lanes), v_permute(v, index)    lane i of the result is lane lanes[i] of v; one
 *                          instruction where VPERMUTES is 1
 *   v_window(a, b, n)      VL lanes from lane n of a and b, side by side, on; 0 <= n <= VL
 *   v_transpose(r)         VL vectors of VL lanes, in place
 *   v_even(a, b)           the even lanes of a, then those of b
 *   v_load_low(p), v_load_low_mask(p, m), v_bcast_low(p), v_fma_low(a, b, c)    the first VL / 2
 *                          lanes, the others are anything (where VNARROW is 1)
 *   v_fma_into(a, b, c)    v_fma(a, b, c), in the register of c (where VUNROLLS is 1: kernels take
 *                          several steps in one turn of their loop)
 *   v_fma(a, b, c) = a*b + c;  v_add;  v_clip(x, lo, hi), v_leaky(x, slope): NaN passes through
 * Written without suffix below, once SC_SUFFIX says which type this inclusion is for. */
#undef T
#undef vec
#undef mask
#undef vec_index
#undef VL
#undef VHALVES
#if SC_IS_F64
#define T double
#define SC_SUFFIX f64
#else
#define T float
#define SC_SUFFIX f32
#endif
#ifndef SC_PASTE
#define SC_PASTE2(a, b) a##_##b
#define SC_PASTE(a, b) SC_PASTE2(a, b)
#define FN(name) SC_PASTE(name, SC_SUFFIX)
#define SC_INLINE static inline __attribute__((always_inline))
#endif
#define vec FN(vec)
#define mask FN(mask)
#define vec_index FN(index)
#define VL FN(VLANES)
#define VHALVES FN(VHALVES)
#ifndef v_load
#define v_zero FN(v_zero)
#define v_set1 FN(v_set1)
#define v_load FN(v_load)
#define v_store FN(v_store)
#define v_stream FN(v_stream)
#define v_bcast FN(v_bcast)
#define v_mask FN(v_mask)
#define v_load_mask FN(v_load_mask)
#define v_store_mask FN(v_store_mask)
#define v_load_halves FN(v_load_halves)
#define v_index FN(v_index)
#define v_permute FN(v_permute)
#define v_window FN(v_window)
#define v_transpose FN(v_transpose)
#define v_even FN(v_even)
#define v_fma FN(v_fma)
#define v_fma_into FN(v_fma_into)
#define v_add FN(v_add)
#define v_clip FN(v_clip)
#define v_leaky FN(v_leaky)
#if VNARROW
#define v_load_low FN(v_load_low)
#define v_load_low_mask FN(v_load_low_mask)
#define v_bcast_low FN(v_bcast_low)
#define v_fma_low FN(v_fma_low)
#else
#define v_load_low v_load
#define v_load_low_mask v_load_mask
#define v_bcast_low v_bcast
#define v_fma_low v_fma
#endif
#endif
