/* The only parallel loop. OpenMP hands tasks out in chunks; each writes its own part of the
 * result, and what a task computes does not depend on who computes it, so neither do the bits. A
 * child of fork() inherits OpenMP's state without its threads and would wait for them for ever:
 * there the loop runs in one thread. Every thread leaves its floating-point control word as it
 * was. */
#include "internal.h"

/* Stores past the caches become visible in any order. A thread waits for its own once, at its end:
 * it would stand still for each task's. */
static void wait_for_streams(void) {
#if SC_X86
    __builtin_ia32_sfence();
#endif
}

static void run(sc_team team, sc_body body, void *context, ptrdiff_t task, int thread) {
    unsigned long control;
    if (!team.flush_denormals) {
        body(context, task, thread);
        return;
    }
    control = sc_fp_save();
    sc_fp_flush_denormals();
    body(context, task, thread);
    sc_fp_restore(control);
}

static void run_all(ptrdiff_t tasks, sc_team team, sc_body body, void *context) {
    for (ptrdiff_t task = 0; task < tasks; task++) run(team, body, context, task, 0);
    wait_for_streams();
}

#ifdef _OPENMP
#include <omp.h>
#include <pthread.h>

enum { CHUNKS_A_THREAD = 8 };

static int forked;
static void mark_child(void) { forked = 1; }
__attribute__((constructor)) static void watch_fork(void) {
    pthread_atfork(NULL, NULL, mark_child);
}

/* More threads than this only cost; where the system refuses them, OpenMP ends the process. */
int sc_most_threads(void) { return (int)sc_max(16, 4 * omp_get_num_procs()); }

int sc_openmp(void) { return _OPENMP; }
int sc_max_threads(void) { return forked ? 1 : omp_get_max_threads(); }

void sc_parallel_parts(ptrdiff_t tasks, ptrdiff_t part, sc_team team, sc_body body, void *context) {
    team.threads = (int)sc_min(team.threads, sc_min(tasks, sc_most_threads()));
    if (team.threads <= 1 || tasks <= 1 || forked) {
        run_all(tasks, team, body, context);
        return;
    }
    /* neighbours share filters and input rows: hand them out in chunks, several a thread */
    int chunk = (int)sc_max(1, sc_min(1 << 20, tasks / (team.threads * CHUNKS_A_THREAD)));
    if (part > 1 && part < 1 << 20 && tasks / part % team.threads == 0) chunk = (int)part;
#pragma omp parallel num_threads(team.threads)
    {
        const int thread = omp_get_thread_num();
#pragma omp for schedule(dynamic, chunk) nowait
        for (ptrdiff_t task = 0; task < tasks; task++) run(team, body, context, task, thread);
        wait_for_streams();
    }
}

#else

int sc_most_threads(void) { return 1; }
int sc_openmp(void) { return 0; }
int sc_max_threads(void) { return 1; }

void sc_parallel_parts(ptrdiff_t tasks, ptrdiff_t part, sc_team team, sc_body body, void *context) {
    (void)part;
    run_all(tasks, team, body, context);
}

#endif

void sc_parallel(ptrdiff_t tasks, sc_team team, sc_body body, void *context) {
    sc_parallel_parts(tasks, 1, team, body, context);
}
