/* What the C tests share: CHECK, whole random numbers, and memory that ends at an unreadable page.
 * A test prints nothing but its failures and a closing line; exit 77 means skipped. */
#ifndef SIMDCONV_TESTS_CHECK_H
#define SIMDCONV_TESTS_CHECK_H

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

enum { PASSED = 0, FAILED = 1, SKIPPED = 77 };

static long failures, checks;

#define CHECK(condition, ...)                                                                      \
    do {                                                                                           \
        checks++;                                                                                  \
        if (!(condition) && failures++ < 20) {                                                     \
            fprintf(stderr, "%s:%d: %s: ", __FILE__, __LINE__, #condition);                        \
            fprintf(stderr, __VA_ARGS__);                                                          \
            fputc('\n', stderr);                                                                   \
        }                                                                                          \
    } while (0)

static inline int conclude(const char *name) {
    printf("%s: %ld checks, %ld failed\n", name, checks, failures);
    return failures ? FAILED : PASSED;
}

/* A block with an unreadable page on each side; it touches the later one, or the earlier one. */
typedef struct {
    char *data, *map;
    size_t mapped;
} guarded;

static inline guarded guarded_alloc(size_t bytes, int at_start) {
    size_t page = (size_t)sysconf(_SC_PAGESIZE), inside = (bytes + page - 1) / page * page;
    guarded block;
    if (inside == 0) inside = page;
    block.mapped = inside + 2 * page;
    block.map = mmap(NULL, block.mapped, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (block.map == MAP_FAILED || mprotect(block.map + page, inside, PROT_READ | PROT_WRITE)) {
        perror("guarded_alloc");
        exit(FAILED);
    }
    block.data = block.map + page + (at_start ? 0 : inside - bytes);
    return block;
}

static inline void guarded_free(guarded block) { munmap(block.map, block.mapped); }

static unsigned long long random_state = 20230614;

static inline unsigned random_below(unsigned n) {
    random_state = random_state * 6364136223846793005ull + 1442695040888963407ull;
    return (unsigned)(random_state >> 33) % n;
}

/* -4 .. 4: sums of thousands of their products are exact in float */
static inline double random_whole(void) { return (double)random_below(9) - 4; }

#endif
