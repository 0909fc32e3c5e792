/* Work on several threads of one program at the same time gives the bytes that it gives one after
 * the other: nothing of the library belongs to the process. */
#include "vision_lab.h"

#include <grail/machine.h>
#include <grail/select.h>

#include <pthread.h>
#include <string.h>

enum { ROWS = 512, H = 96, K = 40, O = 48, JOBS = 4 };

/* -- numerics ---------------------------------------------------------------------------------- */

typedef struct numerics {
    float x[ROWS * H], w[O * H], weight[O * K];
    int64_t labels[H];
    grail_status status;
} numerics;

static void fill(numerics *n, uint64_t seed)
{
    support_fill_normal(n->x, ROWS * H, seed);
    support_fill_normal(n->w, O * H, seed + 1);
}

static grail_status choose_and_fit(numerics *n)
{
    OWNED(grail_statistics) *s = NULL;
    OWNED(grail_reducer) *r = NULL;
    grail_compensate_options options;
    grail_compensate_result result;
    grail_site given;
    grail_compensate_options_init(&options);
    grail_site_init(&given);
    CHECK(grail_statistics_create(H, 0, &s));
    CHECK(grail_statistics_accumulate(s, ROWS, n->x, H, NULL, 0));
    const grail_unit_columns columns = {.weight = n->w, .outputs = O, .fit = s};
    given.units = H;
    given.consumers = &columns;
    given.consumer_count = 1;
    CHECK(grail_select("obs", &given, K, &r));
    grail_reducer_labels(r, n->labels);
    return grail_compensate(s, NULL, r, 1, O, n->w, &options, n->weight, NULL, &result);
}

static void *run_numerics(void *context)
{
    numerics *n = context;
    n->status = choose_and_fit(n);
    return NULL;
}

TEST(numerics_on_several_threads_give_the_same_bytes)
{
    numerics *alone = NULL;
    numerics *together = NULL;
    pthread_t threads[JOBS];
    assert_ok(memory_new(&alone, JOBS, sizeof alone[0]));
    assert_ok(memory_new(&together, JOBS, sizeof together[0]));
    for (int i = 0; i < JOBS; i++) {
        fill(&together[i], 10 + 2 * (uint64_t)i);
        assert_int_equal(pthread_create(&threads[i], NULL, run_numerics, &together[i]), 0);
    }
    for (int i = 0; i < JOBS; i++) {
        pthread_join(threads[i], NULL);
        assert_ok(together[i].status);
        fill(&alone[i], 10 + 2 * (uint64_t)i);
        assert_ok(choose_and_fit(&alone[i]));
        assert_memory_equal(&together[i], &alone[i], sizeof alone[i]);
    }
    memory_free(alone);
    memory_free(together);
}

/* -- models ------------------------------------------------------------------------------------ */

typedef struct job {
    grail_compress_options options;
    int threads; /* 0: the usual number */
    grail_status status;
    int threads_after;
    char message[GRAIL_ERROR_TEXT_SIZE];
} job;

static void *run_job(void *context)
{
    job *j = context;
    if (j->threads > 0) {
        grail_set_threads(j->threads);
    }
    j->status = lab_compress(&j->options);
    j->threads_after = grail_threads();
    strcpy(j->message, grail_error_message());
    return NULL;
}

/* The jobs at once into NAME-together, then one after the other into NAME-alone. */
static void assert_same_bytes(const lab *l, job jobs[2])
{
    static const char *const names[2][2] = {{"a-together", "a-alone"}, {"b-together", "b-alone"}};
    pthread_t threads[2];
    const int own = grail_threads();
    for (int i = 0; i < 2; i++) {
        jobs[i].options.output.path = lab_path(l, names[i][0]);
    }
    for (int i = 0; i < 2; i++) {
        assert_int_equal(pthread_create(&threads[i], NULL, run_job, &jobs[i]), 0);
    }
    for (int i = 0; i < 2; i++) {
        pthread_join(threads[i], NULL);
        assert_int_equal(jobs[i].status, GRAIL_OK);
        assert_true(jobs[i].threads == 0 || jobs[i].threads_after == jobs[i].threads);
    }
    assert_int_equal(grail_threads(), own);
    for (int i = 0; i < 2; i++) {
        const char *together = jobs[i].options.output.path;
        jobs[i].options.output.path = lab_path(l, names[i][1]);
        assert_int_equal(pthread_create(&threads[i], NULL, run_job, &jobs[i]), 0);
        pthread_join(threads[i], NULL);
        assert_int_equal(jobs[i].status, GRAIL_OK);
        assert_same_checkpoint(together, jobs[i].options.output.path);
    }
}

static grail_compress_options fully(grail_compress_options options)
{
    options.cut.selector = "obs";
    options.fit.compensate = "full";
    options.fit.refit = "all";
    options.fit.token_weights = "stream";
    return options;
}

VISION_TEST(two_models_on_two_threads_give_the_same_bytes)
{
    OWNED(lab) text;
    lab_open(&text);
    job jobs[2] = {{.options = fully(lab_options(&text, lab_golden("llama3"), NULL))},
                   {.options = vision_options(v, vision_network(v, VISION_BASIC, "m"), NULL)}};
    vision_cut(&jobs[1].options, 0.5);
    assert_same_bytes(&v->l, jobs);
}

/* grail_set_threads is of the thread that calls it. */
LAB_TEST(each_thread_has_its_own_number_of_threads)
{
    job jobs[2] = {{.options = fully(lab_options(l, lab_golden("llama3"), NULL)), .threads = 1},
                   {.options = fully(lab_options(l, lab_golden("gpt2"), NULL)), .threads = 3}};
    assert_same_bytes(l, jobs);
}

/* What went wrong on one thread is not said on another. */
LAB_TEST(an_error_is_told_on_its_own_thread)
{
    pthread_t thread;
    job wrong = {.options = lab_options(l, lab_path(l, "no-such-model"), lab_path(l, "out"))};
    grail_reducer *none = NULL;
    assert_fails(grail_reducer_from_selection(3, 4, (const int64_t[]){0, 1, 2, 3}, &none),
                 GRAIL_ERROR_ARGUMENT, "4 of 3 units");
    assert_int_equal(pthread_create(&thread, NULL, run_job, &wrong), 0);
    pthread_join(thread, NULL);
    assert_int_not_equal(wrong.status, GRAIL_OK);
    assert_non_null(strstr(wrong.message, "no-such-model"));
    assert_non_null(strstr(grail_error_message(), "4 of 3 units"));
}
