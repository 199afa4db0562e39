/* The library's allocator and parallel loop, written so that sanitizers see more.
 *
 * A workspace is as long as was asked for, to the byte, and full of NaN: reading past its end, or
 * before something was written there, shows. The loop runs in threads of its own, as many as the
 * call may use, however little there is to do. Stands for core/workspace.c and core/parallel.c. */
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "core/internal.h"

enum { LINE = 128, MOST_THREADS = 8 };

static _Thread_local size_t last_allocation;

size_t sc_last_allocation(void) { return last_allocation; }

void *sc_alloc(size_t bytes) {
    void *memory = NULL;
    last_allocation = bytes;
    if (bytes == 0 || posix_memalign(&memory, LINE, bytes)) return NULL;
    return memset(memory, 0xff, bytes);
}

void sc_free(void *memory) { free(memory); }

int sc_openmp(void) { return 0; }
int sc_most_threads(void) { return MOST_THREADS; }
int sc_max_threads(void) { return 1; }

typedef struct {
    sc_body body;
    void *context;
    ptrdiff_t tasks;
    sc_team team;
    _Atomic ptrdiff_t next;
} loop;

typedef struct {
    loop *of;
    int thread;
} worker;

static void *work(void *argument) {
    const worker *me = argument;
    loop *l = me->of;
    unsigned long control = sc_fp_save();
    ptrdiff_t task;
    if (l->team.flush_denormals) sc_fp_flush_denormals();
    while ((task = atomic_fetch_add(&l->next, 1)) < l->tasks) l->body(l->context, task, me->thread);
    sc_fp_restore(control);
    return NULL;
}

void sc_parallel(ptrdiff_t tasks, sc_team team, sc_body body, void *context) {
    loop l = {body, context, tasks, team, 0};
    int threads = (int)sc_max(1, sc_min(team.threads, sc_min(tasks, MOST_THREADS)));
    worker workers[MOST_THREADS];
    pthread_t running[MOST_THREADS];
    for (int i = 0; i < threads; i++) workers[i] = (worker){&l, i};
    for (int i = 1; i < threads; i++)
        if (pthread_create(&running[i], NULL, work, &workers[i])) abort();
    work(&workers[0]);
    for (int i = 1; i < threads; i++) pthread_join(running[i], NULL);
}
