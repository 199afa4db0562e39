/* The stored transforms im2col and im2win: data movement only, so one version an element size. */
#include <stdint.h>
#include <string.h>

#include "internal.h"

typedef struct {
    const sc_problem *p;
    const void *x;
    void *out;
    size_t element;
} transform;

typedef struct {
    uint64_t half[2];
} element16;

#define SC_INLINE static inline
#define FN2(a, b) a##_##b
#define FN1(a, b) FN2(a, b)
#define FN(name) FN1(name, SC_SUFFIX)

#define T uint8_t
#define SC_SUFFIX 1
#include "../pack/patches.h"
#include "../pack/strip.h"
#include "../pack/stored.h"
#undef T
#undef SC_SUFFIX
#define T uint16_t
#define SC_SUFFIX 2
#include "../pack/patches.h"
#include "../pack/strip.h"
#include "../pack/stored.h"
#undef T
#undef SC_SUFFIX
#define T uint32_t
#define SC_SUFFIX 4
#include "../pack/patches.h"
#include "../pack/strip.h"
#include "../pack/stored.h"
#undef T
#undef SC_SUFFIX
#define T uint64_t
#define SC_SUFFIX 8
#include "../pack/patches.h"
#include "../pack/strip.h"
#include "../pack/stored.h"
#undef T
#undef SC_SUFFIX
#define T element16
#define SC_SUFFIX 16
#include "../pack/patches.h"
#include "../pack/strip.h"
#include "../pack/stored.h"

static sc_body body_of(size_t element, int strip) {
    switch (element) {
    case 1: return strip ? stored_strip_1 : stored_matrix_1;
    case 2: return strip ? stored_strip_2 : stored_matrix_2;
    case 4: return strip ? stored_strip_4 : stored_matrix_4;
    case 8: return strip ? stored_strip_8 : stored_matrix_8;
    case 16: return strip ? stored_strip_16 : stored_matrix_16;
    default: return NULL;
    }
}

static sc_error run(const sc_problem *p, size_t element, const void *x, void *out, sc_team team,
                    int strip) {
    sc_body body = body_of(element, strip);
    transform t = {p, x, out, element};
    if (!body) return SC_NO_KERNEL;
    sc_parallel(p->images * p->h_out, team, body, &t);
    return SC_OK;
}

sc_error sc_im2col(const sc_problem *p, size_t element, const void *x, void *out, sc_team team) {
    return run(p, element, x, out, team, 0);
}

sc_error sc_im2win(const sc_problem *p, size_t element, const void *x, void *out, sc_team team) {
    return run(p, element, x, out, team, 1);
}
