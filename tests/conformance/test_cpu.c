/* What only the cpu backend has: its kernel choice and probe, exp and erfc, tasks and tiles. */
#include "backend/backend.h"
#include "backend/cpu/blas.h"
#include "backend/cpu/kernels.h"
#include "backend/cpu/packing.h"
#include "backend/cpu/probe.h"
#include "backend/cpu/special.h"
#include "backend/cpu/tasks.h"
#include "backend/cpu/tiles.h"
#include "base/parallel.h"
#include "support/support.h"

#include <math.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

/* In a child process, since BLIS keeps its first choice. */
static bool in_child(bool (*holds)(const char *variable, const void *context), const char *variable,
                     const void *context)
{
    fflush(NULL);
    const pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        if (variable == NULL) {
            unsetenv("BLIS_ARCH_TYPE");
        } else {
            setenv("BLIS_ARCH_TYPE", variable, 1);
        }
        _exit(holds(variable, context) ? 0 : 1);
    }
    int status = 0;
    assert_int_equal(waitpid(child, &status, 0), child);
    return WIFEXITED(status) && WEXITSTATUS(status) == 0;
}

typedef struct expected_kernel {
    const char *kernel;
    blas_choice choice;
} expected_kernel;

/* The environment is the program's again, and holds what it set. */
static bool has_kernel(const char *variable, const void *context)
{
    const expected_kernel *e = context;
    char **before = environ;
    blas_start();
    const bool kernel = strcmp(blas_kernel(), e->kernel) == 0 && blas_kernel_choice() == e->choice;
    const char *after = getenv("BLIS_ARCH_TYPE");
    return kernel && environ == before &&
           (variable == NULL ? after == NULL : after != NULL && strcmp(after, variable) == 0);
}

static bool kernel_with(const char *variable, const char *kernel, blas_choice choice)
{
    const expected_kernel e = {kernel, choice};
    return in_child(has_kernel, variable, &e);
}

/* The first test: it needs a process that has not called BLIS. */
TEST(test_the_kernel_follows_the_cpu_unless_the_user_chose)
{
    const char *suitable = blas_suitable_kernel();
    if (suitable == NULL) {
        skip();
    }
    assert_true(kernel_with(NULL, suitable, BLAS_CHOICE_FEATURES));
    assert_true(kernel_with("no such kernel", suitable, BLAS_CHOICE_FEATURES));
    assert_true(kernel_with("99", suitable, BLAS_CHOICE_FEATURES));
    assert_true(kernel_with("generic", "generic", BLAS_CHOICE_USER));
    assert_true(kernel_with("penryn", "penryn", BLAS_CHOICE_USER));
    assert_true(kernel_with("3", "haswell", BLAS_CHOICE_USER));
}

/* On one processor threads come one after the other. */
static bool starts_with_places_for_all(const char *variable, const void *context)
{
    enum { THREADS = 3 };
    cpu_set_t one;
    CPU_ZERO(&one);
    CPU_SET(sched_getcpu(), &one);
    parallel_set_threads(THREADS);
    return sched_setaffinity(0, sizeof one, &one) == 0 && cpu_start() == GRAIL_OK &&
           blas_packing_places() >= THREADS;
}

TEST(test_products_have_their_memory_before_they_are_needed)
{
    assert_true(in_child(starts_with_places_for_all, NULL, NULL));
}

TEST(test_the_probe_tells_how_to_mend_a_slow_choice)
{
    if (blas_suitable_kernel() == NULL) {
        skip();
    }
    fflush(NULL);
    const pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        setenv("BLIS_ARCH_TYPE", "generic", 1);
        grail_machine p;
        cpu_probe_fill(&p);
        _exit(p.remedy != NULL && strstr(p.remedy, "unset BLIS_ARCH_TYPE") != NULL ? 0 : 1);
    }
    int status = 0;
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 0);
}

TEST(test_the_probe_names_the_machine)
{
    grail_machine p;
    cpu_probe_fill(&p);
    assert_true(p.cpu[0] != '\0');
    assert_true(p.cores >= 1);
    assert_int_equal(p.threads, parallel_threads());
    assert_string_equal(p.blas_name, "BLIS");
    assert_true(strlen(p.blas_version) > 0);
    assert_true(p.onednn_version[0] == '2' || p.onednn_version[0] == '3');
    assert_true(strlen(p.kernel) > 0);
    assert_true(strlen(p.kernel_choice) > 0);
    assert_null(p.remedy);
    assert_true(p.memory_available > 0 && p.memory_available <= p.memory_total);
}

TEST(test_exp_keeps_its_stated_accuracy)
{
    for (double x = -87.3; x <= 88.3; x += 1e-4) {
        const float rounded = (float)x;
        if (rounded < -87.3F || rounded > 88.3F) {
            continue;
        }
        assert_near((double)exp_f32(rounded) / exp((double)rounded), 1.0, 2e-7);
    }
    assert_true(exp_f32(0.0F) == 1.0F);
    assert_true(exp_f32(-88.0F) == 0.0F);
    assert_true(exp_f32(-INFINITY) == 0.0F);
    assert_true(exp_f32(INFINITY) > 2e38F);
    assert_true(isnan(exp_f32(NAN)));
}

TEST(test_erfc_keeps_its_stated_accuracy)
{
    for (double z = 0.0; z <= 12.0; z += 1e-5) {
        const float rounded = (float)z;
        assert_near((double)erfc_f32(rounded), erfc((double)rounded), 4e-7);
    }
    assert_true(erfc_f32(1e30F) == 0.0F);
    assert_true(isnan(erfc_f32(NAN)));
}

static void check_cover(const tiling *t)
{
    unsigned char *seen = NULL;
    assert_ok(memory_new(&seen, (size_t)(t->m * t->n), 1));
    for (int64_t index = 0; index < tiling_count(t); index++) {
        const tile one = tiling_at(t, index);
        assert_true(one.height > 0 && one.width > 0);
        assert_true(!tile_on_diagonal(t, &one) || one.height == one.width);
        for (int64_t at = 0; at < one.height * one.width; at++) {
            seen[(one.i0 + at / one.width) * t->n + one.j0 + at % one.width]++;
        }
    }
    for (int64_t at = 0; at < t->m * t->n; at++) {
        assert_true(seen[at] == 1 || (t->lower && seen[at] == 0 && at % t->n > at / t->n));
    }
    memory_free(seen);
}

TEST(test_tiles_cover_each_entry_once)
{
    static const int64_t shapes[][2] = {{1, 1}, {1, 3000}, {3000, 1}, {700, 300}, {129, 1025}};
    const int before = parallel_threads();
    for (int threads = 1; threads <= 64; threads *= 4) {
        parallel_set_threads(threads);
        for (size_t i = 0; i < sizeof shapes / sizeof shapes[0]; i++) {
            const tiling full = tiling_new(false, shapes[i][0], shapes[i][1], 256);
            check_cover(&full);
            const tiling lower = tiling_new(true, shapes[i][0], shapes[i][0], 256);
            check_cover(&lower);
        }
    }
    const tiling empty = tiling_new(false, 0, 5, 256);
    assert_int_equal(tiling_count(&empty), 0);
    parallel_set_threads(before);
}

TEST(test_tiles_shrink_until_all_threads_have_some)
{
    const int before = parallel_threads();
    parallel_set_threads(16);
    const tiling many = tiling_new(false, 4096, 4096, 1024);
    const tiling lower = tiling_new(true, 4096, 4096, 1024);
    const tiling few = tiling_new(false, 300, 300, 1024);
    parallel_set_threads(before);
    assert_true(tiling_count(&many) >= 32);
    assert_true(tiling_count(&lower) >= 32);
    assert_true(few.tile_m >= 128 && few.tile_n >= 128);
}

/* Every element at its place, zeros behind them, and nothing else touched. */
static void check_packing(const packing *p)
{
    enum { MOST = 64 * 64 * 2, GUARD = 32 };
    float from[MOST];
    float into[MOST + GUARD];
    const int64_t size = p->full_length * p->height;
    for (int i = 0; i < MOST; i++) {
        from[i] = (float)(i + 1);
    }
    for (int i = 0; i < MOST + GUARD; i++) {
        into[i] = -1.0F;
    }
    if (!pack_f32(p, from, into)) {
        skip(); /* no AVX-512 */
    }
    for (int64_t i = 0; i < size + GUARD; i++) {
        const int64_t k = i / p->height;
        const int64_t row = i % p->height;
        const bool inside = k < p->length && row < p->rows;
        const int64_t place = row * p->row_step + k * p->step;
        const double expected = i >= size ? -1.0 : inside ? (double)(place + 1) : 0.0;
        assert_true((double)into[i] == expected);
    }
}

TEST(test_operands_are_packed_in_their_order)
{
    static const int64_t heights[] = {32, 12, 16, 14, 6, 5};
    static const int64_t lengths[] = {1, 7, 8, 16, 37};
    for (size_t h = 0; h < sizeof heights / sizeof heights[0]; h++) {
        for (int64_t rows = 1; rows <= heights[h]; rows++) {
            for (size_t l = 0; l < sizeof lengths / sizeof lengths[0]; l++) {
                const int64_t length = lengths[l];
                check_packing(&(packing){rows, heights[h], length, length, 41, 1});
                check_packing(&(packing){rows, heights[h], length, length + 3, 1, 41});
            }
        }
    }
    assert_false(pack_f32(&(packing){4, 4, 4, 4, 2, 8}, NULL, NULL));
}

static void count_task(int64_t task, int64_t worker, float *scratch, void *context)
{
    scratch[0] = (float)task;
    scratch[6] = 1.0F;
    ((int *)context)[task] += (int)scratch[0] == task && worker < parallel_threads() ? 1 : 100;
}

static grail_status run_tasks(void *context)
{
    return tasks_run(5, 7, count_task, context);
}

TEST(test_tasks_run_once_each)
{
    int counts[1000] = {0};
    assert_ok(tasks_run(1000, 7, count_task, counts));
    for (int i = 0; i < 1000; i++) {
        assert_int_equal(counts[i], 1);
    }
    assert_ok(tasks_run(0, 7, count_task, counts));
    support_fail_each_allocation(run_tasks, counts);
    assert_fails(tasks_run(5, SIZE_MAX, count_task, counts), GRAIL_ERROR_MEMORY, "out of memory");
}

static grail_status measure(void *context)
{
    return cpu_measure_speed(0.0, context);
}

TEST(test_speed_is_measured)
{
    cpu_speed speed = {0};
    support_fail_each_allocation(measure, &speed);
    assert_true(speed.sgemm_gflops > 0.0);
    assert_true(speed.dgemm_gflops > 0.0);
}
