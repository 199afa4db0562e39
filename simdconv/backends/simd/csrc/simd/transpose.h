/* Transposes in registers: to[j*to_row + i] = from[i*from_row + j]. Blocks of 16-byte vectors (4x4
 * floats, 2x2 doubles) on any ISA, and blocks of VL x VL elements. */
#include "transpose_16.h"

typedef T FN(block) __attribute__((vector_size(16)));

static void FN(transpose_small)(const T *from, ptrdiff_t from_row, ptrdiff_t rows,
                                ptrdiff_t columns, T *to, ptrdiff_t to_row) {
    enum { B = 16 / sizeof(T) };
    for (ptrdiff_t at = 0, i; at < rows && rows >= B; at += B) {
        ptrdiff_t j = 0;
        i = sc_min(at, rows - B); /* the last block overlaps the one before */
        for (; j + B <= columns; j += B) {
            FN(block) r[B];
            for (int n = 0; n < B; n++) memcpy(&r[n], from + (i + n) * from_row + j, 16);
#if SC_IS_F64
            TRANSPOSE_2X2(FN(block), r);
#else
            TRANSPOSE_4X4(FN(block), r);
#endif
            for (int n = 0; n < B; n++) memcpy(to + (j + n) * to_row + i, &r[n], 16);
        }
        for (; j < columns; j++)
            for (int n = 0; n < B; n++) to[j * to_row + i + n] = from[(i + n) * from_row + j];
    }
    for (ptrdiff_t i = 0; i < rows && rows < B; i++)
        for (ptrdiff_t j = 0; j < columns; j++) to[j * to_row + i] = from[i * from_row + j];
}

SC_INLINE void FN(transpose_block)(const T *from, ptrdiff_t from_row, ptrdiff_t rows, T *to,
                                   ptrdiff_t to_row) {
    vec r[VL];
#pragma GCC unroll 16
    for (int i = 0; i < VL; i++) r[i] = i < rows ? v_load(from + i * from_row) : v_zero();
    v_transpose(r);
    if (rows >= VL) {
#pragma GCC unroll 16
        for (int j = 0; j < VL; j++) v_store(to + j * to_row, r[j]);
    } else {
        const mask valid = v_mask(rows);
#pragma GCC unroll 16
        for (int j = 0; j < VL; j++) v_store_mask(to + j * to_row, r[j], valid);
    }
}

/* Any number of rows and columns. A block that would be half empty is taken in small ones. */
static void FN(transpose)(const T *from, ptrdiff_t from_row, ptrdiff_t rows, ptrdiff_t columns,
                          T *to, ptrdiff_t to_row) {
    const ptrdiff_t whole = columns / VL * VL;
    for (ptrdiff_t i = 0; i < rows; i += VL, from += VL * from_row, to += VL) {
        const ptrdiff_t height = sc_min(VL, rows - i);
        ptrdiff_t j = 0;
        for (; 2 * height > VL && j < whole; j += VL)
            FN(transpose_block)(from + j, from_row, height, to + j * to_row, to_row);
        if (j < columns)
            FN(transpose_small)(from + j, from_row, height, columns - j, to + j * to_row, to_row);
    }
}
