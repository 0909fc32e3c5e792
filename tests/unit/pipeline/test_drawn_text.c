/* Calibration text that the network draws itself: the same for one seed, on from other texts, and
 * refused where there is none. */
#include "lab.h"

#include "arch/model.h"
#include "pipeline/request/calibration.h"
#include "pipeline/request/calibration_record.h"
#include "pipeline/request/drawn_text.h"
#include "pipeline/request/drawn_turns.h"

#include <math.h>
#include <string.h>

enum { WINDOWS = 6, PROMPT = 5 };

typedef struct asked {
    grail_model *model;
    grail_compress_options options;
    token_windows drawn;
    char *notice;
} asked;

static void open_asked(asked *a)
{
    *a = (asked){0};
    assert_ok(grail_model_open(lab_golden("llama3"), &a->model));
    grail_compress_options_init(&a->options);
    a->options.read.text.path = DRAWN_PLACE;
    a->options.read.text.context = LAB_LENGTH;
    a->options.read.samples = WINDOWS;
}

static void close_asked(asked *a)
{
    token_windows_fini(&a->drawn);
    memory_free(a->notice);
    grail_model_close(a->model);
}

OWNS(asked, close_asked)
OWNS(drawn_windows, drawn_windows_fini)
#define ASKED_TEST(name) TEST_OF(asked, a, open_asked, close_asked, name)

static grail_status draw(void *context)
{
    asked *a = context;
    token_windows_fini(&a->drawn);
    a->drawn = (token_windows){0};
    memory_free(a->notice);
    a->notice = NULL;
    return drawn_text_read(a->model, &a->options, NULL, WINDOWS, LAB_LENGTH, NULL, &a->drawn,
                           &a->notice);
}

static calibration *calibrate(const asked *a)
{
    calibration *c = NULL;
    assert_ok(calibration_read(a->model, &a->options, NULL, NULL, &c));
    return c;
}

ASKED_TEST(a_seed_names_the_text)
{
    OWNED(calibration) *one = calibrate(a);
    OWNED(calibration) *again = calibrate(a);
    a->options.read.seed = 1;
    OWNED(calibration) *other = calibrate(a);
    const size_t bytes = WINDOWS * LAB_LENGTH * sizeof(int32_t);
    assert_int_equal(one->count, WINDOWS);
    assert_int_equal(one->drawn, WINDOWS);
    assert_int_equal(one->windows.length, LAB_LENGTH);
    assert_memory_equal(one->windows.ids, again->windows.ids, bytes);
    assert_true(memcmp(one->windows.ids, other->windows.ids, bytes) != 0);
    assert_true(json_equal(one->description, again->description));
    assert_false(json_equal(one->description, other->description));
    assert_true(json_is_true(json_object_get(one->description, CALIBRATION_DRAWN_KEY)));
    for (int64_t i = 0; i < WINDOWS; i++) {
        assert_int_equal(one->windows.ids[i * LAB_LENGTH], 1); /* bos_token_id */
        for (int64_t k = 0; k < LAB_LENGTH; k++) {
            assert_in_range(one->windows.ids[i * LAB_LENGTH + k], 0, 95);
        }
    }
    assert_int_equal(one->hashes.count, 0); /* it is in no text that is measured */
}

/* Behind each end of a text, which is 2, comes a beginning. */
ASKED_TEST(a_text_that_ends_is_followed_by_another)
{
    int64_t ends = 0;
    for (a->options.read.seed = 0; a->options.read.seed < 20; a->options.read.seed++) {
        assert_ok(draw(a));
        for (int64_t i = 0; i < WINDOWS * LAB_LENGTH; i++) {
            const bool is_last = i % LAB_LENGTH == LAB_LENGTH - 1;
            if (a->drawn.ids[i] == 2 && !is_last) {
                ends++;
                assert_int_equal(a->drawn.ids[i + 1], 1);
            }
        }
    }
    assert_true(ends > 0);
}

ASKED_TEST(windows_go_on_with_the_first_tokens_of_others)
{
    int32_t ids[2 * PROMPT] = {7, 8, 9, 10, 11, 17, 18, 19, 20, 21};
    const token_windows prompts = {.ids = ids, .count = 2, .length = PROMPT};
    OWNED(token_windows) w = {0};
    assert_ok(
        drawn_text_read(a->model, &a->options, &prompts, 4, LAB_LENGTH, NULL, &w, &a->notice));
    for (int64_t i = 0; i < 4; i++) {
        assert_int_equal(w.ids[i * LAB_LENGTH], i % 2 == 0 ? 7 : 17);
        assert_memory_equal(w.ids + i * LAB_LENGTH, ids + i % 2 * PROMPT, sizeof ids / 2);
    }
}

LAB_TEST(a_text_and_a_drawn_one_share_the_windows)
{
    OWNED(asked) a;
    open_asked(&a);
    const grail_text_part parts[] = {{.path = DRAWN_PLACE, .share = 0.25},
                                     {.path = l->calibration}};
    a.options.read.parts = parts;
    a.options.read.part_count = 2;
    a.options.read.samples = 8;
    calibration *c = calibrate(&a);
    assert_int_equal(c->count, 8);
    assert_int_equal(c->drawn, 2);
    calibration_release(c);
    const grail_text_part twice[] = {{.path = DRAWN_PLACE}, {.path = DRAWN_PLACE}};
    a.options.read.parts = twice;
    assert_fails(calibration_read(a.model, &a.options, NULL, NULL, &c), GRAIL_ERROR_ARGUMENT,
                 "more than once");
}

/* Its description is that of the run that draws. */
ASKED_TEST(a_dry_run_draws_nothing)
{
    OWNED(calibration) *drawn = calibrate(a);
    a->options.output.dry_run = 1;
    OWNED(calibration) *dry = calibrate(a);
    assert_true(json_equal(drawn->description, dry->description));
    assert_int_equal(dry->windows.ids[1], 0);
}

static int count_places(void *user, int block, int blocks, double done)
{
    (void)blocks;
    (void)done;
    *(int *)user += block == GRAIL_STEP_DRAWING ? 1 : 0;
    return 0;
}

/* Fewer windows are the first of those that were drawn together, and are not drawn again; more have
 * them, and only the others are. */
ASKED_TEST(windows_are_drawn_once)
{
    enum { FEW = 2, MORE = WINDOWS + 3 };
    const size_t bytes = FEW * LAB_LENGTH * sizeof(int32_t);
    OWNED(drawn_windows) kept = {0};
    OWNED(token_windows) few = {0};
    OWNED(token_windows) more = {0};
    int places = 0;
    a->options.run.step_observer = count_places;
    a->options.run.observer_user = &places;
    assert_ok(drawn_text_read(a->model, &a->options, NULL, WINDOWS, LAB_LENGTH, &kept, &a->drawn,
                              &a->notice));
    const int once = places;
    assert_true(once > 0);
    a->options.read.drawn_first = WINDOWS;
    assert_ok(
        drawn_text_read(a->model, &a->options, NULL, FEW, LAB_LENGTH, &kept, &few, &a->notice));
    assert_int_equal(places, once);
    assert_int_equal(few.count, FEW);
    assert_memory_equal(few.ids, a->drawn.ids, bytes);
    assert_ok(
        drawn_text_read(a->model, &a->options, NULL, MORE, LAB_LENGTH, &kept, &more, &a->notice));
    assert_int_equal(places, 2 * once);
    assert_int_equal(more.count, MORE);
    assert_memory_equal(more.ids, a->drawn.ids, WINDOWS * LAB_LENGTH * sizeof(int32_t));
    a->options.read.seed = 1;
    token_windows_fini(&few);
    assert_ok(
        drawn_text_read(a->model, &a->options, NULL, FEW, LAB_LENGTH, &kept, &few, &a->notice));
    assert_int_equal(places, 3 * once);
    assert_true(memcmp(few.ids, a->drawn.ids, bytes) != 0);
}

/* Nothing that was kept changes what is drawn. */
ASKED_TEST(the_first_windows_need_not_be_kept)
{
    OWNED(token_windows) few = {0};
    assert_ok(draw(a));
    a->options.read.drawn_first = WINDOWS;
    assert_ok(drawn_text_read(a->model, &a->options, NULL, 2, LAB_LENGTH, NULL, &few, &a->notice));
    assert_memory_equal(few.ids, a->drawn.ids, 2 * LAB_LENGTH * sizeof(int32_t));
}

ASKED_TEST(drawing_is_measured)
{
    drawing_times t = {0};
    assert_ok(drawn_text_measure(a->model, &a->options, 24, LAB_LENGTH, &t));
    assert_int_equal(t.at_once, 24);
    assert_true(t.step >= 0.0 && t.window >= 0.0 && t.step + t.window > 0.0);
    t = (drawing_times){.step = 2.0, .window = 0.25, .at_once = 10};
    assert_near(drawing_seconds(&t, 21, 100), 100.0 * (3.0 * 2.0 + 21.0 * 0.25), 1e-9);
    assert_true(drawing_seconds(&t, 0, 100) == 0.0);
}

static int watch(void *user, int block, int blocks, double done)
{
    double *last = user;
    assert_int_equal(block, -1);
    assert_true(blocks > 0 && done > *last && done <= 1.0);
    *last = done;
    return done > 0.5 ? 1 : 0;
}

ASKED_TEST(drawing_is_told_of_and_stops)
{
    double last = 0.0;
    a->options.run.step_observer = watch;
    a->options.run.observer_user = &last;
    assert_fails(draw(a), GRAIL_ERROR_CANCELLED, "drew its own text");
    assert_true(last > 0.5 && last < 0.7);
}

/* Two thirds of the tokens end texts. */
ASKED_TEST(a_network_that_only_ends_texts_is_no_source)
{
    json_t *ends = json_array();
    for (int i = 0; i < 64; i++) {
        assert_int_equal(json_array_append_new(ends, json_integer(i + 32)), 0);
    }
    assert_int_equal(json_object_set_new(a->model->config, "eos_token_id", ends), 0);
    assert_int_equal(json_object_del(a->model->config, "bos_token_id"), 0);
    assert_fails(draw(a), GRAIL_ERROR_UNSUPPORTED, "hardly any text");
}

/* The turns of a template, by hand: a question lies between 40 and 41, 42; its answer ends with 43.
 */
static void name_turns(drawn_turns *t)
{
    static const int32_t ids[] = {40, 41, 42, 43};
    *t = (drawn_turns){0};
    assert_ok(token_list_push(&t->turns.begin, ids[0]));
    assert_ok(token_list_push(&t->turns.between, ids[1]));
    assert_ok(token_list_push(&t->turns.between, ids[2]));
    assert_ok(token_list_push(&t->turns.after, ids[3]));
}

/* What stands where the network would say `said`, one after the other, behind the beginning. */
static void follow(const drawn_turns *t, const int32_t *said, const int32_t *expected, int count)
{
    enum { LONGEST_QUESTION = 3, END = 2 };
    drawn_turn now = {0};
    for (int i = 0, k = 0; i < count; i++) {
        int32_t id = -1;
        bool ended = false;
        if (!drawn_turn_gives(t, &now, &id)) {
            id = drawn_turn_take(t, &now, said[k], said[k] == END, LONGEST_QUESTION, &ended);
            k++;
        }
        assert_int_equal(id, expected[i]);
    }
}

TEST(questions_and_answers_take_turns)
{
    drawn_turns t;
    name_turns(&t);
    /* an end of texts, and one of turns; then nothing is said; then a question that does not end */
    const int32_t said[] = {10, 2, 11, 43, 41, 2, 12, 13, 14, 15, 2};
    const int32_t expected[] = {10, 41, 42, 11, 43, 40, 41, 42, 43, 40, 12, 13, 14, 41, 42, 15, 43};
    follow(&t, said, expected, sizeof expected / sizeof expected[0]);
    t.turns.after.count = 0; /* the template leaves the end to the network */
    const int32_t open[] = {10, 41, 42, 11, 2, 40, 12};
    const int32_t ends[] = {10, 2, 11, 2, 12};
    follow(&t, ends, open, sizeof open / sizeof open[0]);
    drawn_turns_fini(&t);
}

TEST(wrong_requests_are_refused)
{
    asked a;
    open_asked(&a);
    assert_fails(drawn_text_read(a.model, &a.options, NULL, 1, 1, NULL, &a.drawn, &a.notice),
                 GRAIL_ERROR_ARGUMENT, "windows of 2 to");
    assert_fails(drawn_text_read(a.model, &a.options, NULL, 1, a.model->context + 1, NULL, &a.drawn,
                                 &a.notice),
                 GRAIL_ERROR_ARGUMENT, "windows of 2 to");
    a.options.heal.teacher = "/no/such/model";
    assert_true(draw(&a) != GRAIL_OK);
    close_asked(&a);
    assert_ok(grail_model_open(lab_golden("bert"), &a.model));
    grail_compress_options_init(&a.options);
    a.drawn = (token_windows){0};
    assert_fails(draw(&a), GRAIL_ERROR_ARGUMENT, "drawing text needs");
    close_asked(&a);
}

ASKED_TEST(each_allocation_may_fail)
{
    support_fail_each_allocation(draw, a);
}

static grail_status draw_and_keep(void *context)
{
    asked *a = context;
    OWNED(drawn_windows) kept = {0};
    token_windows_fini(&a->drawn);
    a->drawn = (token_windows){0};
    return drawn_text_read(a->model, &a->options, NULL, 2, LAB_LENGTH, &kept, &a->drawn,
                           &a->notice);
}

static grail_status measure_drawing(void *context)
{
    const asked *a = context;
    drawing_times times;
    return drawn_text_measure(a->model, &a->options, WINDOWS, LAB_LENGTH, &times);
}

ASKED_TEST(allocations_may_fail_where_windows_are_kept_or_measured)
{
    support_fail_each_allocation(draw_and_keep, a);
    support_fail_each_allocation(measure_drawing, a);
}
