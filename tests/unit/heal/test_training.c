/* The loop of a training, on a loss that is known: when it judges, when it ends, what it keeps, and
 * that one which was saved goes on to the same values. */
#include "hand_training.h"

#include "heal/training.h"

#include "backend/operations.h"
#include "base/clock.h"

#include <math.h>
#include <string.h>

enum { SAMPLES = 8, STEPS = 32, JUDGEMENTS = 64 };

static const grail_heal_options chosen = {.steps = STEPS};

/* Each sample has a goal for the weight; the loss is the squared distance to it. */
typedef struct game {
    hand_training h;
    int judged, told, stepped; /* calls */
    double losses[JUDGEMENTS]; /* what was judged, or what is answered */
    bool answers;              /* with the losses instead of the true one */
    int groups;                /* of a judgement; 0: one */
    double spread;          /* by which groups differ from the loss, but those of the first one */
    int diverges_at;        /* judgement that cannot be computed; 0: none */
    int breaks_at;          /* step likewise */
    int stops_at;           /* told call that cancels */
    int64_t judged_samples; /* what a judgement costs, in samples */
    int64_t told_steps[JUDGEMENTS];
    training_state last;
    double step_seconds, judge_seconds; /* that each takes at least */
} game;

static double clock_now; /* of the clock that steps and judgements let go on */

static double played(void)
{
    return clock_now;
}

static void take(double seconds)
{
    clock_now += seconds;
}

static double goal(int64_t sample, int i)
{
    return 0.5 * sin((double)i) + 0.01 * cos((double)(3 * sample + i));
}

static grail_status add_gradients(void *user, int64_t step, const int64_t *samples, int64_t count)
{
    game *g = user;
    double weight[HAND_MOST];
    double gradient[HAND_MOST] = {0.0};
    assert_int_equal(step, g->stepped);
    g->stepped++;
    take(g->step_seconds);
    if (g->stepped == g->breaks_at) {
        g->stepped--; /* it is not taken */
        g->breaks_at = 0;
        return error_set(GRAIL_ERROR_NUMERIC, "the output is infinite");
    }
    hand_values(&g->h, 0, weight);
    for (int64_t s = 0; s < count; s++) {
        for (int i = 0; i < 12; i++) {
            gradient[i] += 2.0 * (weight[i] - goal(samples[s], i)) / (double)count;
        }
    }
    hand_add_gradient(&g->h, 0, gradient);
    return GRAIL_OK;
}

static double distance(const game *g)
{
    double weight[HAND_MOST];
    double sum = 0.0;
    hand_values(&g->h, 0, weight);
    for (int i = 0; i < 12; i++) {
        sum += (weight[i] - goal(100, i)) * (weight[i] - goal(100, i));
    }
    return sum;
}

static grail_status judge(void *user, judged_loss *out)
{
    game *g = user;
    assert_true(g->judged < JUDGEMENTS);
    const int now = g->judged++;
    take(g->judge_seconds);
    if (g->judged == g->diverges_at) {
        return error_set(GRAIL_ERROR_NUMERIC, "the output is infinite");
    }
    g->losses[now] = g->answers ? g->losses[now] : distance(g);
    for (int i = 0; i < (g->groups > 0 ? g->groups : 1); i++) {
        const double off = now == 0 ? 0.0 : i % 2 == 0 ? g->spread : -g->spread;
        out->sum[i] = 3.0 * g->losses[now] * (1.0 + off);
        out->rows[i] = 3.0;
    }
    return GRAIL_OK;
}

static grail_status tell(void *user, const training_state *state)
{
    game *g = user;
    g->told_steps[g->told++] = state->steps;
    g->last = *state;
    return g->told == g->stops_at ? error_set(GRAIL_ERROR_CANCELLED, "told to stop") : GRAIL_OK;
}

static void game_init(game *g, grail_dtype stored)
{
    *g = (game){.judged_samples = 1};
    hand_training_init(&g->h, backend_reference(), stored);
}

static void game_fini(game *g)
{
    hand_training_fini(&g->h);
}

OWNS(game, game_fini)

static grail_status play(game *g, double rate, training_state *state)
{
    static const int64_t samples[SAMPLES] = {0, 1, 2, 3, 4, 5, 6, 7};
    const training_options options = {.chosen = &chosen,
                                      .rate = rate,
                                      .seconds = (double)INFINITY,
                                      .batch = 3,
                                      .seed = 1,
                                      .samples = samples,
                                      .sample_count = SAMPLES,
                                      .judged = g->judged_samples};
    const training_task task = {
        .add_gradients = add_gradients, .judge = judge, .tell = tell, .user = g};
    return training_run(&options, &task, g->h.o, state);
}

static void assert_weights(const game *g, const double *expected)
{
    double now[HAND_MOST];
    hand_values(&g->h, 0, now);
    assert_memory_equal(now, expected, 12 * sizeof now[0]);
}

TEST(it_judges_at_even_steps_and_keeps_the_best)
{
    OWNED(game) g;
    training_state s = {0};
    game_init(&g, GRAIL_DTYPE_F32);
    assert_ok(play(&g, 0.06, &s));
    assert_int_equal(s.steps, STEPS);
    assert_int_equal(g.judged, 17);
    assert_int_equal(g.told, 17);
    double least = g.losses[0];
    int64_t at = 0;
    for (int i = 0; i < g.judged; i++) {
        assert_int_equal(g.told_steps[i], 2 * i);
        at = g.losses[i] < least ? 2 * i : at;
        least = fmin(least, g.losses[i]);
    }
    assert_true(s.held_before == g.losses[0]);
    assert_true(s.held_best == least && s.best_step == at);
    assert_true(least < 0.5 * s.held_before);
    assert_true(distance(&g) == least); /* the store holds what was judged */
}

/* Judgements of many samples are made rarely, so that steps take most of the time, but four times
 * at least. */
TEST(what_is_dear_is_judged_rarely)
{
    static const int64_t cases[][2] = {/* samples judged, steps between; a step costs 12 */
                                       {1, 2}, {3, 2}, {4, 3},  {6, 4},
                                       {8, 6}, {9, 6}, {12, 8}, {500, 8}};
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        OWNED(game) g;
        training_state s = {0};
        game_init(&g, GRAIL_DTYPE_F32);
        g.judged_samples = cases[i][0];
        assert_ok(play(&g, 0.06, &s));
        assert_int_equal(s.steps, STEPS);
        for (int k = 0; k < g.told; k++) {
            assert_int_equal(g.told_steps[k], k + 1 < g.told ? k * cases[i][1] : STEPS);
        }
    }
}

/* Half of the judgements that there are. */
TEST(patience_falls_with_the_judgements)
{
    OWNED(game) g;
    training_state s = {0};
    game_init(&g, GRAIL_DTYPE_F32);
    g.answers = true;
    g.judged_samples = 500;
    static const double losses[] = {1.0, 0.9, 0.95, 0.95, 0.1};
    memcpy(g.losses, losses, sizeof losses);
    assert_ok(play(&g, 0.1, &s));
    assert_int_equal(s.best_step, STEPS / 4);
    assert_int_equal(s.steps, 3 * STEPS / 4);
}

/* A gain of 0.01 on 16 groups has an error of 0.26 spread; three groups tell none. */
TEST(a_gain_that_may_be_chance_is_none)
{
    static const struct {
        int groups;
        double spread;
        bool gains;
    } cases[] = {{16, 0.03, true}, {16, 0.05, false}, {4, 0.05, false}, {2, 0.5, true}};
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        OWNED(game) g;
        training_state s = {0};
        double start[HAND_MOST];
        game_init(&g, GRAIL_DTYPE_F32);
        hand_values(&g.h, 0, start);
        g.answers = true;
        g.groups = cases[i].groups;
        g.spread = cases[i].spread;
        g.losses[0] = 1.0;
        for (int k = 1; k < JUDGEMENTS; k++) {
            g.losses[k] = 0.99;
        }
        assert_ok(play(&g, 0.1, &s));
        assert_near(s.held_before, 1.0, 1e-12);
        assert_near(s.held_best, cases[i].gains ? 0.99 : 1.0, 1e-12);
        assert_true((s.best_step > 0) == cases[i].gains);
        assert_true(s.began_again != cases[i].gains);
        if (!cases[i].gains) {
            assert_weights(&g, start);
        }
    }
}

TEST(it_ends_after_eight_judgements_that_are_not_better)
{
    static const double losses[] = {1.0, 0.9, 0.95, 0.5, 0.6, 0.5, (double)NAN,
                                    0.7, 0.8, 0.6,  0.5, 0.9, 0.1};
    OWNED(game) g;
    training_state s = {0};
    game_init(&g, GRAIL_DTYPE_F32);
    g.answers = true;
    memcpy(g.losses, losses, sizeof losses);
    assert_ok(play(&g, 0.1, &s));
    assert_int_equal(s.best_step, 6);
    assert_int_equal(s.steps, 22);
    assert_true(s.held_best == 0.5 && s.held_before == 1.0);
}

/* The loss rises while the rate is high; on its way back it is waited for. */
TEST(a_loss_that_comes_back_is_waited_for)
{
    static const double risen[] = {1.0, 1.4, 1.5, 1.3, 1.25, 1.2, 1.15, 1.1, 1.09, 1.05, 0.9};
    static const struct {
        double last; /* judged when patience ends: a quarter of what it rose by is too much */
        bool waits;
    } cases[] = {{1.12, true}, {1.125, false}, {(double)NAN, false}};
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        OWNED(game) g;
        training_state s = {0};
        game_init(&g, GRAIL_DTYPE_F32);
        g.answers = true;
        memcpy(g.losses, risen, sizeof risen);
        g.losses[8] = cases[i].last;
        for (int j = 11; j < JUDGEMENTS; j++) {
            g.losses[j] = 0.95;
        }
        assert_ok(play(&g, 0.1, &s));
        assert_int_equal(s.began_again, !cases[i].waits);
        assert_int_equal(s.best_step, 20);
    }
    OWNED(game) g; /* which is not waited for until the end */
    training_state s = {0};
    game_init(&g, GRAIL_DTYPE_F32);
    g.answers = true;
    memcpy(g.losses, risen, sizeof risen);
    for (int j = 9; j < JUDGEMENTS; j++) {
        g.losses[j] = 1.01;
    }
    assert_ok(play(&g, 0.1, &s));
    assert_int_equal(s.begun_step, 24);
}

/* A block before the first cut is the dense one. */
TEST(no_loss_means_no_step)
{
    OWNED(game) g;
    training_state s = {0};
    game_init(&g, GRAIL_DTYPE_F32);
    g.answers = true;
    assert_ok(play(&g, 0.1, &s));
    assert_int_equal(s.steps, 0);
    assert_int_equal(g.judged, 1);
    assert_int_equal(g.told, 1);
    assert_true(s.held_before == 0.0 && s.held_best == 0.0);
}

TEST(where_nothing_is_better_the_start_stays)
{
    OWNED(game) g;
    training_state s = {0};
    double start[HAND_MOST];
    game_init(&g, GRAIL_DTYPE_BF16);
    hand_values(&g.h, 0, start);
    g.answers = true;
    for (int i = 0; i < JUDGEMENTS; i++) {
        g.losses[i] = 1.0; /* as good is not better */
    }
    assert_ok(play(&g, 0.5, &s));
    assert_int_equal(s.best_step, 0);
    assert_int_equal(s.steps, STEPS); /* 16 at the rate, 16 at an eighth */
    assert_int_equal(s.begun_step, 16);
    assert_weights(&g, start);
}

/* A rate that is too large for any gain is lowered, from the start. */
TEST(it_begins_again_where_the_rate_is_too_large)
{
    for (int breaks_at = 0; breaks_at <= 2; breaks_at++) { /* 0: it does not */
        game g;
        training_state s = {0};
        game_init(&g, GRAIL_DTYPE_F32);
        g.breaks_at = breaks_at;
        assert_ok(play(&g, breaks_at == 0 ? 40.0 : 0.1, &s));
        assert_true(s.began_again);
        assert_int_equal(s.begun_step, breaks_at == 0 ? 16 : breaks_at - 1);
        assert_true(s.best_step > s.begun_step && s.held_best < s.held_before);
        assert_true(distance(&g) == s.held_best);
        game_fini(&g);
    }
}

TEST(a_loss_at_the_start_that_is_no_number_is_an_error)
{
    static const double losses[] = {(double)NAN, (double)INFINITY};
    for (int i = 0; i < 2; i++) {
        OWNED(game) g;
        training_state s = {0};
        game_init(&g, GRAIL_DTYPE_F32);
        g.answers = true;
        g.losses[0] = losses[i];
        assert_fails(play(&g, 0.1, &s), GRAIL_ERROR_NUMERIC, "the loss before healing is ");
    }
    OWNED(game) g;
    training_state s = {0};
    game_init(&g, GRAIL_DTYPE_F32);
    g.diverges_at = 1;
    assert_fails(play(&g, 0.1, &s), GRAIL_ERROR_NUMERIC, "the output is infinite");
}

/* Neither a step nor a judgement that fails takes away what was won before. */
TEST(what_was_best_stays_when_it_diverges)
{
    for (int way = 0; way < 2; way++) {
        OWNED(game) g;
        training_state s = {0};
        game_init(&g, GRAIL_DTYPE_BF16);
        g.breaks_at = way == 0 ? 12 : 0;
        g.diverges_at = way == 1 ? 7 : 0;
        assert_ok(play(&g, 0.1, &s));
        assert_true(s.best_step > 0 && s.best_step <= 10);
        assert_int_equal(s.steps, way == 0 ? 11 : 12);
        assert_true(distance(&g) == s.held_best && s.held_best < s.held_before);
        assert_int_equal(g.last.steps, s.steps); /* told, so that it can be saved as ended */
        assert_int_equal(g.last.judgements_lost, 8);
        const int judged = g.judged;
        assert_ok(play(&g, 0.1, &s));
        assert_int_equal(g.judged, judged);
    }
}

/* Everything that a saved training is made of. */
static void copy_training(const game *from, game *to)
{
    for (int i = 0; i < HAND_PARAMETERS; i++) {
        const trained_parameter *a = &from->h.o->of[i];
        const trained_parameter *b = &to->h.o->of[i];
        assert_ok(matrix_copy(from->h.store->entries[i].values, to->h.store->entries[i].values));
        assert_ok(matrix_copy(a->first, b->first));
        assert_ok(matrix_copy(a->second, b->second));
        assert_ok(matrix_copy(a->best, b->best));
    }
    to->h.o->steps = from->last.steps;
}

TEST(one_that_was_saved_goes_on_to_the_same_values)
{
    double whole[HAND_MOST];
    game g;
    training_state complete = {0};
    game_init(&g, GRAIL_DTYPE_BF16);
    assert_ok(play(&g, 0.2, &complete));
    hand_values(&g.h, 0, whole);
    const int calls = g.told;
    game_fini(&g);
    for (int at = 1; at <= calls; at++) {
        OWNED(game) again;
        training_state s = {0};
        game_init(&g, GRAIL_DTYPE_BF16);
        game_init(&again, GRAIL_DTYPE_BF16);
        g.stops_at = at;
        assert_fails(play(&g, 0.2, &s), GRAIL_ERROR_CANCELLED, "told to stop");
        copy_training(&g, &again);
        again.stepped = (int)g.last.steps;
        s = g.last;
        assert_ok(play(&again, 0.2, &s));
        assert_weights(&again, whole);
        assert_int_equal(s.steps, complete.steps);
        assert_int_equal(s.best_step, complete.best_step);
        assert_true(s.held_best == complete.held_best && s.held_before == complete.held_before);
        game_fini(&g);
    }
}

TEST(no_time_means_no_step)
{
    static const int64_t samples[SAMPLES] = {0};
    game g;
    training_state s = {0};
    double start[HAND_MOST];
    game_init(&g, GRAIL_DTYPE_F32);
    hand_values(&g.h, 0, start);
    const training_options options = {.chosen = &chosen,
                                      .rate = 0.1,
                                      .seconds = 0.0,
                                      .batch = 1,
                                      .samples = samples,
                                      .sample_count = 1,
                                      .judged = 1};
    const training_task task = {
        .add_gradients = add_gradients, .judge = judge, .tell = tell, .user = &g};
    assert_ok(training_run(&options, &task, g.h.o, &s));
    assert_int_equal(s.steps, 0);
    assert_int_equal(g.told, 1);
    assert_weights(&g, start);
    game_fini(&g);
}

/* Whatever a step and a judgement take, no step is begun that would not end in the time, nor a
 * judgement behind it. */
TEST(steps_that_would_not_fit_are_not_begun)
{
    static const int64_t samples[SAMPLES] = {0, 1, 2, 3, 4, 5, 6, 7};
    static const double each[][2] = {{0.020, 0.010}, {0.002, 0.030}, {0.040, 0.001}, {0.2, 0.05}};
    for (size_t i = 0; i < sizeof each / sizeof each[0]; i++) {
        game g;
        training_state s = {0};
        game_init(&g, GRAIL_DTYPE_F32);
        g.step_seconds = each[i][0];
        g.judge_seconds = each[i][1];
        const training_options options = {.chosen = &chosen,
                                          .rate = 0.1,
                                          .seconds = 0.1,
                                          .batch = SAMPLES,
                                          .samples = samples,
                                          .sample_count = SAMPLES,
                                          .judged = SAMPLES};
        const training_task task = {
            .add_gradients = add_gradients, .judge = judge, .tell = tell, .user = &g};
        clock_replace(played);
        assert_ok(training_run(&options, &task, g.h.o, &s));
        clock_replace(NULL);
        const double took = g.stepped * g.step_seconds + g.judged * g.judge_seconds;
        assert_true(took <= options.seconds + 1e-12);
        assert_int_equal(g.told_steps[g.told - 1], g.stepped); /* none is left unjudged */
        game_fini(&g);
    }
}
