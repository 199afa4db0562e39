/* Vectors of 16 bytes transposed in registers, in place: in the compiler's own vector extension, so
 * that any ISA has it. `vec` is the type of r[i]. */
#ifndef SC_TRANSPOSE_16
#define SC_TRANSPOSE_16
#define TRANSPOSE_4X4(vec, r)                                                                      \
    do {                                                                                           \
        const vec low0 = __builtin_shufflevector((r)[0], (r)[1], 0, 4, 1, 5);                      \
        const vec high0 = __builtin_shufflevector((r)[0], (r)[1], 2, 6, 3, 7);                     \
        const vec low1 = __builtin_shufflevector((r)[2], (r)[3], 0, 4, 1, 5);                      \
        const vec high1 = __builtin_shufflevector((r)[2], (r)[3], 2, 6, 3, 7);                     \
        (r)[0] = __builtin_shufflevector(low0, low1, 0, 1, 4, 5);                                  \
        (r)[1] = __builtin_shufflevector(low0, low1, 2, 3, 6, 7);                                  \
        (r)[2] = __builtin_shufflevector(high0, high1, 0, 1, 4, 5);                                \
        (r)[3] = __builtin_shufflevector(high0, high1, 2, 3, 6, 7);                                \
    } while (0)
#define TRANSPOSE_2X2(vec, r)                                                                      \
    do {                                                                                           \
        const vec first = (r)[0];                                                                  \
        (r)[0] = __builtin_shufflevector(first, (r)[1], 0, 2);                                     \
        (r)[1] = __builtin_shufflevector(first, (r)[1], 1, 3);                                     \
    } while (0)
#endif
