/* The guarded backend itself: its memory is closed to host code, and to kernels that run past the
 * end. This is what makes runs on it a proof. */
#include "backend/operations.h"
#include "support/guarded.h"
#include "support/support.h"

#include <math.h>
#include <signal.h>
#include <stdio.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

/* Whether a child process that touches a matrix ends otherwise than by itself: by a signal, or by a
 * sanitizer that handles it. */
static bool crashes(void (*touch)(matrix m), matrix m)
{
    fflush(NULL);
    const pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        const struct rlimit no_core = {0, 0};
        (void)setrlimit(RLIMIT_CORE, &no_core);
        (void)signal(SIGSEGV, SIG_DFL);                  /* cmocka would go on with its next test */
        if (freopen("/dev/null", "w", stderr) != NULL) { /* what a sanitizer reports */
            touch(m);
        }
        _exit(0);
    }
    int status = 0;
    assert_int_equal(waitpid(child, &status, 0), child);
    return !WIFEXITED(status) || WEXITSTATUS(status) != 0;
}

static void read_first(matrix m)
{
    (void)*(const volatile float *)m.memory;
}

static void write_last(matrix m)
{
    ((volatile float *)m.memory)[matrix_count(m) - 1] = 1.0F;
}

static void download_all(matrix m)
{
    float values[30];
    assert_ok(matrix_download(m, values));
}

static void add_to_itself(matrix m)
{
    assert_ok(matrix_add(m, m, m));
}

/* As a kernel that goes on behind the last row. */
static void upload_too_much(matrix m)
{
    static const float values[1000] = {0.0F};
    m.columns = 1000;
    m.rows = 1;
    assert_ok(matrix_upload(m, values));
}

static void fail_a_fallback(matrix m)
{
    memory_fail_after(0);
    (void)!matrix_layer_norm(1e-5, m, no_matrix, no_matrix, m);
    memory_fail_after(-1);
    read_first(m);
}

static matrix zeros_of(backend *b)
{
    matrix m = {0};
    assert_ok(matrix_new_zero(b, GRAIL_DTYPE_F32, 5, 6, &m));
    return m;
}

static backend *open_guarded(void)
{
    backend *b = NULL;
    assert_ok(backend_open("guarded", NULL, &b));
    return b;
}

TEST(test_host_code_that_follows_an_address_of_guarded_memory_crashes)
{
    OWNED(backend) *b = open_guarded();
    OWNED(matrix) m = zeros_of(b);
    assert_true(crashes(read_first, m));
    assert_true(crashes(write_last, m));
    assert_true(crashes(read_first, matrix_columns(matrix_rows(m, 2, 3), 1, 2)));
    assert_false(crashes(download_all, m));
    assert_false(crashes(add_to_itself, m));
}

TEST(test_guarded_memory_is_closed_again_after_use)
{
    OWNED(backend) *b = open_guarded();
    float values[30] = {0.0F};
    OWNED(matrix) m = {0};
    assert_ok(matrix_new(b, GRAIL_DTYPE_F32, 5, 6, &m));
    assert_true(crashes(read_first, m));
    assert_ok(matrix_upload(m, values));
    assert_true(crashes(read_first, m));
    assert_ok(matrix_download(m, values));
    assert_true(crashes(read_first, m));
    assert_ok(matrix_add(m, matrix_repeat_row(m, 5), m));
    assert_true(crashes(read_first, m));
    assert_ok(matrix_layer_norm(1e-5, m, no_matrix, no_matrix, m)); /* done on the host */
    assert_true(crashes(read_first, m));
    assert_true(crashes(fail_a_fallback, m));
}

TEST(test_a_run_past_the_end_of_guarded_memory_crashes)
{
    OWNED(backend) *b = open_guarded();
    OWNED(matrix) m = {0};
    assert_ok(matrix_new(b, GRAIL_DTYPE_F32, 5, 6, &m));
    assert_true(crashes(upload_too_much, m));
}

/* As a kernel that writes too little to leave the page. */
static void write_into_the_margin(matrix m)
{
    static const float values[31] = {0.0F};
    m.columns = 31;
    m.rows = 1;
    assert_ok(matrix_upload(m, values));
    m.rows = 5;
    m.columns = 6;
    matrix_free(&m);
}

TEST(test_a_write_behind_guarded_memory_shows_when_it_is_freed)
{
    OWNED(backend) *b = open_guarded();
    OWNED(matrix) m = {0};
    assert_ok(matrix_new(b, GRAIL_DTYPE_F32, 5, 6, &m));
    assert_true(crashes(write_into_the_margin, m));
}

TEST(test_guarded_memory_that_is_not_set_is_nan)
{
    OWNED(backend) *b = open_guarded();
    static const grail_dtype types[] = {GRAIL_DTYPE_F32, GRAIL_DTYPE_F64};
    for (int t = 0; t < 2; t++) {
        float values[6] = {0.0F};
        OWNED(matrix) m = {0};
        assert_ok(matrix_new(b, types[t], 2, 3, &m));
        assert_ok(matrix_download_f32(m, values));
        for (int i = 0; i < 6; i++) {
            assert_true(isnan(values[i]));
        }
    }
}

int main(void)
{
    guarded_add();
    return support_run_tests();
}
