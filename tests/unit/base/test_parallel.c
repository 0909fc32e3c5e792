/* The parallel loop: every index once, pieces that do not depend on the thread count. */
#include "support/support.h"

#include "base/parallel.h"

#include <math.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { COUNT = 1003 };

typedef struct record {
    _Atomic int visits[COUNT];
    _Atomic int64_t pieces;
    _Atomic int64_t largest;
} record;

static void visit(int64_t begin, int64_t end, void *context)
{
    record *r = context;
    int64_t largest = r->largest;
    while (end - begin > largest &&
           !atomic_compare_exchange_weak(&r->largest, &largest, end - begin)) {
    }
    r->pieces++;
    for (int64_t i = begin; i < end; i++) {
        r->visits[i]++;
    }
}

static void check_visits(const record *r, int64_t count)
{
    for (int64_t i = 0; i < COUNT; i++) {
        assert_int_equal(r->visits[i], i < count ? 1 : 0);
    }
}

TEST(test_every_index_is_visited_once)
{
    static const int64_t grains[] = {-1, 1, 7, 1002, 1003, 5000};
    for (size_t g = 0; g < sizeof grains / sizeof grains[0]; g++) {
        for (int64_t count = 0; count <= COUNT; count += COUNT / 3) {
            record r = {0};
            parallel_for(count, grains[g], visit, &r);
            check_visits(&r, count);
        }
    }
}

TEST(test_pieces_depend_on_the_grain_alone)
{
    const int before = parallel_threads();
    for (int threads = 1; threads <= 5; threads++) {
        record r = {0};
        parallel_set_threads(threads);
        assert_int_equal(parallel_threads(), threads);
        parallel_for(COUNT, 10, visit, &r);
        assert_int_equal(r.pieces, 101);
        assert_int_equal(r.largest, 10);
    }
    parallel_set_threads(0);
    assert_int_equal(parallel_threads(), 1);
    parallel_set_threads(before);
}

static void visit_inside(int64_t begin, int64_t end, void *context)
{
    record *records = context;
    for (int64_t i = begin; i < end; i++) {
        parallel_for(COUNT, 10, visit, &records[i]);
    }
}

TEST(test_a_loop_inside_a_loop_visits_once_too)
{
    static record records[8];
    parallel_for(8, 1, visit_inside, records);
    for (int i = 0; i < 8; i++) {
        check_visits(&records[i], COUNT);
    }
}

TEST(test_threads_are_started_or_refused)
{
#if defined(__SANITIZE_ADDRESS__)
    skip(); /* its shadow takes all address space */
#endif
    enum { MANY = 512, ROOM = 256 << 20 };
    const int before = parallel_threads();
    struct rlimit old;
    struct rlimit low;
    parallel_set_threads(3);
    assert_ok(parallel_start());
    assert_ok(parallel_start());
    assert_int_equal(getrlimit(RLIMIT_AS, &old), 0);
    low = old;
    low.rlim_cur = ROOM;
    parallel_set_threads(MANY);
    assert_int_equal(setrlimit(RLIMIT_AS, &low), 0);
    const grail_status status = parallel_start();
    assert_int_equal(setrlimit(RLIMIT_AS, &old), 0);
    assert_fails(status, GRAIL_ERROR_MEMORY, "cannot start 512 threads: ");
    parallel_set_threads(3);
    record r = {0};
    parallel_for(COUNT, 10, visit, &r);
    check_visits(&r, COUNT);
    parallel_set_threads(before);
}

enum { ROUNDS = 20, IDLE_NANOSECONDS = 5000000 };

/* Processor seconds of this program while it has nothing to do between short loops. */
static double idle_cost(void)
{
    const struct timespec idle = {.tv_nsec = IDLE_NANOSECONDS};
    struct timespec used = {0};
    double before = 0.0;
    if (parallel_start() != GRAIL_OK) {
        return (double)NAN;
    }
    for (int i = 0; i <= ROUNDS; i++) {
        record r = {0};
        parallel_for(COUNT, 10, visit, &r);
        nanosleep(&idle, NULL);
        clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &used);
        if (i == 0) {
            before = (double)used.tv_sec + 1e-9 * (double)used.tv_nsec;
        }
    }
    return (double)used.tv_sec + 1e-9 * (double)used.tv_nsec - before;
}

/* The same of a new program whose OpenMP library finds this wait policy, or none, in its
 * environment. */
static double idle_cost_under(const char *policy)
{
    double cost = (double)NAN;
    int ends[2];
    assert_int_equal(pipe(ends), 0);
    const pid_t child = fork();
    if (child == 0) {
        char descriptor[16];
        snprintf(descriptor, sizeof descriptor, "%d", ends[1]);
        unsetenv("OMP_WAIT_POLICY");
        unsetenv("GOMP_SPINCOUNT");
        unsetenv("KMP_BLOCKTIME");
        if (policy != NULL) {
            setenv("OMP_WAIT_POLICY", policy, 1);
        }
        execl("/proc/self/exe", "idle", descriptor, (char *)NULL);
        _exit(1);
    }
    close(ends[1]);
    assert_int_equal(read(ends[0], &cost, sizeof cost), sizeof cost);
    close(ends[0]);
    assert_int_equal(waitpid(child, NULL, 0), child);
    return cost;
}

TEST(test_waiting_threads_leave_the_processor)
{
    if (parallel_threads() < 2) {
        skip();
    }
    const double spinning = idle_cost_under("active");
    const double waiting = idle_cost_under(NULL);
    print_message("%g s of the processor, %g s where threads spin\n", waiting, spinning);
    assert_true(waiting < 0.5 * spinning);
}

int main(int argc, char **argv)
{
    if (argc > 1) {
        const double cost = idle_cost();
        return write(atoi(argv[1]), &cost, sizeof cost) == sizeof cost ? 0 : 1;
    }
    return support_run_tests();
}
