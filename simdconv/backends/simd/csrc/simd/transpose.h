/* A block of 16-byte vectors transposed in registers: 4x4 floats or 2x2 doubles, on any ISA. */
typedef T FN(block) __attribute__((vector_size(16)));

#if SC_IS_F64
SC_INLINE void FN(transpose_block)(const FN(block) *r, FN(block) *s) {
    s[0] = __builtin_shufflevector(r[0], r[1], 0, 2);
    s[1] = __builtin_shufflevector(r[0], r[1], 1, 3);
}
#else
SC_INLINE void FN(transpose_block)(const FN(block) *r, FN(block) *s) {
    FN(block) low0 = __builtin_shufflevector(r[0], r[1], 0, 4, 1, 5);
    FN(block) high0 = __builtin_shufflevector(r[0], r[1], 2, 6, 3, 7);
    FN(block) low1 = __builtin_shufflevector(r[2], r[3], 0, 4, 1, 5);
    FN(block) high1 = __builtin_shufflevector(r[2], r[3], 2, 6, 3, 7);
    s[0] = __builtin_shufflevector(low0, low1, 0, 1, 4, 5);
    s[1] = __builtin_shufflevector(low0, low1, 2, 3, 6, 7);
    s[2] = __builtin_shufflevector(high0, high1, 0, 1, 4, 5);
    s[3] = __builtin_shufflevector(high0, high1, 2, 3, 6, 7);
}
#endif
