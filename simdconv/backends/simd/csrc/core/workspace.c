/* The only allocator: aligned blocks for workspaces and for results.
 *
 * Large blocks come from the system in whole huge pages. The last few that were given back are
 * kept for the next call, because the system clears what it hands out, which costs more than many
 * a convolution; what is kept is marked free, so the system takes it back when it needs memory
 * (MADV_FREE). A block carries its size in a line before it. */
#include "internal.h"

#include <pthread.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>

enum { LINE = 128, KEPT_BLOCKS = 4 };
static const size_t huge_page = (size_t)2 << 20, large = (size_t)1 << 20;

typedef struct {
    size_t bytes; /* mapped, with this line; 0: from the C library */
} header;

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static header *kept[KEPT_BLOCKS]; /* the latest first */
static _Thread_local size_t last_allocation;

size_t sc_last_allocation(void) { return last_allocation; }

/* A child of fork() must find the lock free, whoever held it in the parent */
static void hold(void) { pthread_mutex_lock(&lock); }
static void release(void) { pthread_mutex_unlock(&lock); }
__attribute__((constructor)) static void watch_fork(void) {
    pthread_atfork(hold, release, release);
}

/* Bytes that are kept at most: 512 MiB, or a sixteenth of the machine's memory where the process
 * may have as much address space as it likes */
static size_t most_kept(void) {
    const size_t least = (size_t)512 << 20;
    const long pages = sysconf(_SC_PHYS_PAGES), page = sysconf(_SC_PAGESIZE);
    const size_t share = pages > 0 && page > 0 ? (size_t)pages / 16 * (size_t)page : 0;
    struct rlimit space;
    if (getrlimit(RLIMIT_AS, &space) != 0 || space.rlim_cur != RLIM_INFINITY) return least;
    return share > least ? share : least;
}

static size_t rounded(size_t bytes, size_t unit) { return (bytes + unit - 1) / unit * unit; }

/* a kept block that is large enough and not more than a quarter too large */
static header *take_kept(size_t bytes) {
    header *found = NULL;
    pthread_mutex_lock(&lock);
    for (int i = 0; i < KEPT_BLOCKS && !found; i++) {
        if (!kept[i] || kept[i]->bytes < bytes || kept[i]->bytes > bytes + bytes / 4) continue;
        found = kept[i];
        for (int j = i; j < KEPT_BLOCKS - 1; j++) kept[j] = kept[j + 1];
        kept[KEPT_BLOCKS - 1] = NULL;
    }
    pthread_mutex_unlock(&lock);
    return found;
}

/* gives back what is kept, before there is said to be no memory */
static int drop_kept(void) {
    int dropped = 0;
    pthread_mutex_lock(&lock);
    for (int i = 0; i < KEPT_BLOCKS; i++) {
        if (!kept[i]) continue;
        munmap(kept[i], kept[i]->bytes);
        kept[i] = NULL;
        dropped = 1;
    }
    pthread_mutex_unlock(&lock);
    return dropped;
}

static header *map(size_t bytes) {
    size_t slack = bytes >= huge_page ? huge_page : 0;
    char *start =
        mmap(NULL, bytes + slack, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    char *aligned;
    if (start == MAP_FAILED) return NULL;
    aligned = slack ? (char *)rounded((size_t)start, huge_page) : start;
    if (aligned > start) munmap(start, (size_t)(aligned - start));
    if (aligned + bytes < start + bytes + slack)
        munmap(aligned + bytes, (size_t)(start + bytes + slack - (aligned + bytes)));
#ifdef MADV_HUGEPAGE
    if (slack) madvise(aligned, bytes, MADV_HUGEPAGE);
#endif
    ((header *)aligned)->bytes = bytes;
    return (header *)aligned;
}

void *sc_block_take(size_t bytes) {
    header *block;
    if (bytes > (size_t)-1 / 2) return NULL;
    if (bytes < large) {
        block = aligned_alloc(LINE, rounded(bytes + LINE, LINE));
        if (block) block->bytes = 0;
    } else {
        bytes = rounded(bytes + LINE, bytes >= 2 * huge_page ? huge_page : 4096);
        block = take_kept(bytes);
        if (!block) block = map(bytes);
        if (!block && drop_kept()) block = map(bytes);
    }
    return block ? (char *)block + LINE : NULL;
}

/* Keeps the block first, drops the last ones while too many or too much are kept */
void sc_block_give(void *data) {
    header *block, *dropped[KEPT_BLOCKS + 1];
    int drop = 0;
    size_t total, most;
    if (!data) return;
    block = (header *)((char *)data - LINE);
    if (block->bytes == 0) {
        free(block);
        return;
    }
#ifdef MADV_FREE
    if (block->bytes > 2 * huge_page) /* the first page stays: it holds the header */
        madvise((char *)block + huge_page, block->bytes - huge_page, MADV_FREE);
#endif
    most = most_kept();
    pthread_mutex_lock(&lock);
    if (kept[KEPT_BLOCKS - 1]) dropped[drop++] = kept[KEPT_BLOCKS - 1];
    for (int i = KEPT_BLOCKS - 1; i > 0; i--) kept[i] = kept[i - 1];
    kept[0] = block;
    total = 0;
    for (int i = 0; i < KEPT_BLOCKS; i++) {
        if (!kept[i]) continue;
        total += kept[i]->bytes;
        if (total <= most) continue;
        dropped[drop++] = kept[i];
        total -= kept[i]->bytes;
        for (int j = i; j < KEPT_BLOCKS - 1; j++) kept[j] = kept[j + 1];
        kept[KEPT_BLOCKS - 1] = NULL;
        i--;
    }
    pthread_mutex_unlock(&lock);
    while (drop) {
        block = dropped[--drop];
        munmap(block, block->bytes);
    }
}

void *sc_alloc(size_t bytes) {
    last_allocation = bytes;
    return bytes ? sc_block_take(bytes) : NULL;
}

void sc_free(void *data) { sc_block_give(data); }
