/* Selectors that work on the whole Gram matrix, against greedy search by refitting for every
 * candidate, and against plain transcriptions of their formulas. */
#include "observed.h"
#include "plain_algebra.h"
#include "support/matrices.h"

#include <math.h>
#include <string.h>

enum { MOST_UNITS = 200, CONSUMERS = 2 };

static const double damping = 1e-2;

/* A site and the rows that its consumers see. */
typedef struct sample {
    site_kind kind;
    int64_t units, features, kept, groups;
    int64_t outputs, taps; /* a convolution where taps > 1 */
    bool by_position;      /* its kernel positions are features, else outputs */
    int consumers;
    bool with_target, biased;
} sample;

static const sample neurons = {SITE_FFN, 9, 1, 4, 1, 4, 1, false, 1, false, false};
static const sample heads = {SITE_HEADS, 6, 3, 3, 1, 5, 1, false, 1, false, false};
static const sample grouped = {SITE_HEADS, 6, 2, 3, 3, 5, 1, false, 1, false, false};
static const sample channels = {SITE_CONV, 8, 1, 3, 1, 3, 4, false, 1, false, false};
static const sample positions = {SITE_CONV, 6, 1, 3, 1, 5, 3, true, 1, false, false};
static const sample stream = {SITE_STREAM, 8, 1, 3, 1, 4, 3, false, 2, false, false};
static const sample *const samples[] = {&neurons, &heads, &grouped, &channels, &positions, &stream};
enum { SAMPLES = sizeof samples / sizeof samples[0] };

typedef struct scene {
    const sample *of;
    observed seen[CONSUMERS];
    hand_site f;
} scene;

/* The second consumer of a stream has one tap more and other rows. */
static void add_seen(scene *s, int k, uint64_t seed)
{
    const sample *of = s->of;
    const int64_t taps = of->taps + k;
    const int64_t width = of->units * of->features * (of->by_position ? taps : 1);
    const int64_t outputs = of->outputs * (of->by_position ? 1 : taps);
    s->seen[k] =
        observe(2 * width + 7, width, outputs, of->by_position ? 1 : taps, seed + 10 * (uint64_t)k);
    if (of->with_target) {
        observed_add_target(&s->seen[k], seed + 5);
    }
    if (taps > 1) {
        hand_add_convolution(&s->f, taps, of->outputs, s->seen[k].stored);
    } else {
        hand_add_consumer(&s->f, of->features, of->outputs, s->seen[k].stored);
    }
}

static void open_scene(backend *b, const sample *of, uint64_t seed, scene *s)
{
    s->of = of;
    hand_begin(&s->f, of->kind, of->units, of->kept);
    s->f.site.groups = of->groups;
    s->f.view.fits_bias = of->biased;
    for (int k = 0; k < of->consumers; k++) {
        add_seen(s, k, seed);
        give_input(b, &s->seen[k], k, &s->f);
    }
}

static void close_scene(scene *s)
{
    forget_inputs(&s->f);
    for (int k = 0; k < s->of->consumers; k++) {
        observed_free(&s->seen[k]);
    }
}

OWNS(scene, close_scene)

/* Each width / units times. */
static void spread(const scene *s, int k, const bool *units, bool *features)
{
    const int64_t width = s->seen[k].width;
    for (int64_t j = 0; j < width; j++) {
        features[j] = units[j / (width / s->of->units)];
    }
}

/* The sum of the losses of all consumers. */
static double loss_of(const scene *s, bool centred, double alpha, const bool *units)
{
    bool kept[MOST_UNITS * 4];
    double loss = 0.0;
    for (int k = 0; k < s->of->consumers; k++) {
        spread(s, k, units, kept);
        loss +=
            observed_loss(&s->seen[k], centred, observed_lambda(&s->seen[k], centred, alpha), kept);
    }
    return loss;
}

/* The unit whose change makes the loss least, of those that are in state `from`. */
static int64_t best_change(const scene *s, bool centred, double alpha, bool from,
                           const int64_t *open, bool *units)
{
    int64_t best = -1;
    double least = INFINITY;
    for (int64_t j = 0; j < s->of->units; j++) {
        if (units[j] == from && open[j * s->of->groups / s->of->units] > 0) {
            units[j] = !from;
            const double loss = loss_of(s, centred, alpha, units);
            best = loss < least ? j : best;
            least = loss < least ? loss : least;
            units[j] = from;
        }
    }
    return best;
}

/* Removes from all units, or adds to none, one by one. */
static void greedy(const scene *s, bool centred, double alpha, bool adds, bool *units)
{
    int64_t open[MOST_UNITS];
    const int64_t steps = adds ? s->of->kept : s->of->units - s->of->kept;
    for (int64_t g = 0; g < s->of->groups; g++) {
        open[g] = steps / s->of->groups;
    }
    memset(units, adds ? 0 : 1, (size_t)s->of->units * sizeof units[0]);
    for (int64_t i = 0; i < steps; i++) {
        const int64_t j = best_change(s, centred, alpha, !adds, open, units);
        units[j] = adds;
        open[j * s->of->groups / s->of->units]--;
    }
}

static void assert_keeps(scene *s, const selector *rule, const bool *units)
{
    char pattern[MOST_UNITS + 1] = {0};
    for (int64_t j = 0; j < s->of->units; j++) {
        pattern[j] = units[j] ? '1' : '0';
    }
    assert_decides(&s->f, rule, pattern);
}

static void check_greedy(backend *b, const sample *of, const selector *rule, bool adds)
{
    for (uint64_t seed = 1; seed <= 5; seed++) {
        bool units[MOST_UNITS];
        OWNED(scene) s;
        open_scene(b, of, 100 * seed, &s);
        greedy(&s, of->biased, adds ? 0.0 : damping, adds, units);
        assert_keeps(&s, rule, units);
    }
}

TEST(ziplm_removes_what_costs_least)
{
    for (int i = 0; i < SAMPLES; i++) {
        check_greedy(on_ref, samples[i], &selector_ziplm, false);
        check_greedy(on_cpu, samples[i], &selector_ziplm, false);
    }
}

TEST(obs_removes_what_the_fit_misses_least)
{
    for (int i = 0; i < SAMPLES; i++) {
        for (int choice = 0; choice < 4; choice++) {
            sample s = *samples[i];
            s.with_target = choice % 2 == 1 && s.kind != SITE_STREAM;
            s.biased = choice / 2 == 1 && s.kind != SITE_STREAM;
            check_greedy(choice == 0 ? on_ref : on_cpu, &s, &selector_obs, false);
        }
    }
}

TEST(gram_css_keeps_what_explains_most)
{
    for (int i = 0; i < SAMPLES; i++) {
        check_greedy(on_ref, samples[i], &selector_gram_css, true);
        check_greedy(on_cpu, samples[i], &selector_gram_css, true);
    }
}

/* The target decides: the dense weights of a site whose target is another's. */
TEST(obs_follows_the_target_and_ziplm_does_not)
{
    int differ = 0;
    for (uint64_t seed = 1; seed <= 10; seed++) {
        bool dense[MOST_UNITS];
        bool fitted[MOST_UNITS];
        sample with_target = neurons;
        OWNED(scene) s;
        with_target.with_target = true;
        open_scene(on_cpu, &with_target, 100 * seed, &s);
        greedy(&s, false, damping, false, fitted);
        memory_free(s.seen[0].y);
        s.seen[0].y = NULL;
        greedy(&s, false, damping, false, dense);
        assert_keeps(&s, &selector_ziplm, dense);
        differ += memcmp(dense, fitted, neurons.units * sizeof dense[0]) != 0;
    }
    assert_true(differ > 3);
}

/* scores[n] of 1 - lambda [(G + lambda I)^-1]_jj, summed over features and consumers */
static void leverages(const scene *s, double *scores)
{
    for (int64_t j = 0; j < s->of->units; j++) {
        scores[j] = 0.0;
    }
    for (int k = 0; k < s->of->consumers; k++) {
        const observed *o = &s->seen[k];
        const double lambda = observed_lambda(o, false, damping);
        double *gram = observed_gram(o, false, 0.0);
        double *inverse = observed_gram(o, false, lambda);
        plain_invert(o->width, inverse);
        for (int64_t j = 0; j < o->width; j++) { /* the diagonal of G (G + lambda I)^-1 */
            for (int64_t i = 0; i < o->width; i++) {
                scores[j / (o->width / s->of->units)] +=
                    gram[j * o->width + i] * inverse[i * o->width + j];
            }
        }
        memory_free(gram);
        memory_free(inverse);
    }
}

/* The best units of each group. */
static void keep_best(const sample *of, const double *scores, bool *units)
{
    const int64_t run = of->units / of->groups;
    for (int64_t j = 0; j < of->units; j++) {
        int64_t better = 0;
        for (int64_t i = j / run * run; i < (j / run + 1) * run; i++) {
            better += scores[i] > scores[j] || (scores[i] == scores[j] && i < j);
        }
        units[j] = better < of->kept / of->groups;
    }
}

TEST(leverage_is_the_diagonal_of_the_ridge_projection)
{
    for (int i = 0; i < 2 * SAMPLES; i++) {
        double scores[MOST_UNITS];
        bool units[MOST_UNITS];
        OWNED(scene) s;
        open_scene(i % 2 == 0 ? on_ref : on_cpu, samples[i / 2], 7, &s);
        leverages(&s, scores);
        keep_best(s.of, scores, units);
        assert_keeps(&s, &selector_leverage, units);
    }
}

/* -- SlimGPT, as methods describe it ----------------------------------------------------------- */

typedef enum slim_score { SLIM_CHOLESKY, SLIM_EXACT } slim_score;

/* L_jj^2 of block[u, u] = L L^T */
static void slim_divisors(int64_t u, const double *block, double *divisors)
{
    OWNED(double) *l = plain_copy(u * u, block);
    for (int64_t j = 0; j < u; j++) {
        divisors[j] = block[j * u + j];
        for (int64_t k = 0; k < j; k++) {
            divisors[j] -= l[j * u + k] * l[j * u + k];
        }
        for (int64_t i = j + 1; i < u; i++) {
            double sum = block[i * u + j];
            for (int64_t k = 0; k < j; k++) {
                sum -= l[i * u + k] * l[j * u + k];
            }
            l[i * u + j] = sum / sqrt(divisors[j]);
        }
    }
}

/* The term of one output's weights w[u] of a unit. */
static double slim_term(slim_score score, int64_t u, const double *w, const double *inverse,
                        const double *divisors)
{
    double sum = 0.0;
    for (int64_t i = 0; i < u; i++) {
        sum += score == SLIM_EXACT ? 0.0 : w[i] * w[i] / divisors[i];
        for (int64_t j = 0; score == SLIM_EXACT && j < u; j++) {
            sum += w[i] * inverse[i * u + j] * w[j];
        }
    }
    return sum;
}

/* The score of a unit by its block of Hi[width, width] and its columns of W. */
static double slim_unit(slim_score score, const observed *o, int64_t u, int64_t unit,
                        const double *hi, const double *w, double jitter)
{
    OWNED(double) *block = NULL;
    OWNED(double) *divisors = NULL;
    double sum = 0.0;
    assert_ok(memory_new(&block, (size_t)(u * u), sizeof *block));
    assert_ok(memory_new(&divisors, (size_t)u, sizeof *divisors));
    for (int64_t i = 0; i < u * u; i++) {
        block[i] = hi[(unit * u + i / u) * o->width + unit * u + i % u];
        block[i] += i / u == i % u ? jitter : 0.0;
    }
    slim_divisors(u, block, divisors);
    plain_invert(u, block);
    for (int64_t row = 0; row < o->outputs; row++) {
        sum += slim_term(score, u, w + row * o->width + unit * u, block, divisors);
    }
    return sum;
}

/* (H + damping mean(diag) I)[P, P]^-1 in the places of P; memory_free. */
static double *slim_inverse(const observed *o, const bool *kept)
{
    double *hi = observed_gram(o, false, observed_lambda(o, false, damping));
    for (int64_t i = 0; i < o->width * o->width; i++) {
        if (!kept[i / o->width] || !kept[i % o->width]) {
            hi[i] = i / o->width == i % o->width ? 1.0 : 0.0;
        }
    }
    plain_invert(o->width, hi);
    return hi;
}

/* Removes the units of the `batch` least scores together. */
static void slim_batch(slim_score score, const observed *o, int64_t units, int64_t batch,
                       bool *remaining)
{
    bool kept[MOST_UNITS * 4];
    double scores[MOST_UNITS];
    OWNED(double) *w = NULL;
    const int64_t u = o->width / units;
    for (int64_t j = 0; j < o->width; j++) {
        kept[j] = remaining[j / u];
    }
    OWNED(double) *h = observed_gram(o, false, observed_lambda(o, false, damping));
    OWNED(double) *hi = slim_inverse(o, kept);
    assert_ok(memory_new(&w, (size_t)(o->outputs * o->width), sizeof *w));
    plain_refit(o->outputs, o->width, h, o->w, kept, w);
    for (int64_t j = 0; j < units; j++) {
        scores[j] = remaining[j] ? slim_unit(score, o, u, j, hi, w, 0.0) : INFINITY;
    }
    for (; batch > 0; batch--) {
        int64_t least = 0;
        for (int64_t j = 1; j < units; j++) {
            least = scores[j] < scores[least] ? j : least;
        }
        remaining[least] = false;
        scores[least] = INFINITY;
    }
}

/* Heads one by one; others in batches of bs = (m - 512) / 2, then (bs - 512) / 2 and so on, each
 * within 64 .. 1024 and what is left. */
static void slim(slim_score score, const scene *s, bool *remaining)
{
    const sample *of = s->of;
    const int64_t wanted = of->units - of->kept;
    double size = floor(((double)wanted - 512.0) / 2.0);
    memset(remaining, 1, (size_t)of->units * sizeof remaining[0]);
    for (int64_t done = 0; done < wanted;) {
        const double bounded = fmin(fmax(size, 64.0), 1024.0);
        const double batch = of->kind == SITE_HEADS ? 1.0 : fmin((double)(wanted - done), bounded);
        slim_batch(score, &s->seen[0], of->units, (int64_t)batch, remaining);
        done += (int64_t)batch;
        size = floor((size - 512.0) / 2.0);
    }
}

/* Returns whether the exact cost of removal selects others. */
static bool check_slim(backend *b, const sample *of, uint64_t seed)
{
    bool selected[MOST_UNITS];
    bool by_cost[MOST_UNITS];
    OWNED(scene) s;
    open_scene(b, of, seed, &s);
    slim(SLIM_CHOLESKY, &s, selected);
    slim(SLIM_EXACT, &s, by_cost);
    assert_keeps(&s, &selector_slimgpt, selected);
    return memcmp(selected, by_cost, (size_t)of->units * sizeof selected[0]) != 0;
}

/* 64 and 16 neurons, head after head, 64 and 2 channels of two positions. */
TEST(slimgpt_removes_batches_by_its_score)
{
    static const sample wide = {SITE_FFN, 110, 1, 30, 1, 5, 1, false, 1, false, false};
    static const sample kernels = {SITE_CONV, 70, 1, 4, 1, 2, 2, true, 1, false, false};
    static const sample more_heads = {SITE_HEADS, 16, 4, 6, 1, 5, 1, false, 1, false, false};
    backend *const instances[] = {on_ref, on_cpu};
    bool differs = false;
    for (int i = 0; i < 2; i++) {
        check_slim(instances[i], &wide, 31);
        check_slim(instances[i], &kernels, 31);
        for (uint64_t seed = 1; seed <= 5; seed++) {
            differs |= check_slim(instances[i], &more_heads, 100 * seed);
        }
    }
    assert_true(differs);
}

/* Rows large enough for the 1e-6 that is added to the inverse to matter. */
static void enlarge(scene *s, backend *b, double factor)
{
    forget_inputs(&s->f);
    for (int64_t i = 0; i < s->seen[0].rows * s->seen[0].width; i++) {
        s->seen[0].x[i] *= factor;
    }
    give_input(b, &s->seen[0], 0, &s->f);
}

static void published_once(const scene *s, double jitter, bool *units)
{
    double scores[MOST_UNITS];
    bool all[MOST_UNITS * 4];
    const observed *o = &s->seen[0];
    memset(all, 1, sizeof all);
    OWNED(double) *hi = slim_inverse(o, all);
    for (int64_t j = 0; j < s->of->units; j++) {
        scores[j] = slim_unit(SLIM_EXACT, o, o->width / s->of->units, j, hi, o->w, jitter);
    }
    keep_best(s->of, scores, units);
}

/* ||W_:j||^2 / (Hi_jj + 1e-6) for neurons; for heads nothing is added. */
TEST(slimgpt_paper_scores_once)
{
    int matters = 0;
    for (uint64_t seed = 1; seed <= 10; seed++) {
        for (int of_heads = 0; of_heads < 2; of_heads++) {
            bool units[MOST_UNITS];
            bool other[MOST_UNITS];
            backend *b = seed % 2 == 0 ? on_ref : on_cpu;
            OWNED(scene) s;
            open_scene(b, of_heads == 1 ? &heads : &neurons, 100 * seed, &s);
            enlarge(&s, b, 300.0);
            published_once(&s, of_heads == 1 ? 0.0 : 1e-6, units);
            published_once(&s, of_heads == 1 ? 1e-6 : 0.0, other);
            matters += memcmp(units, other, (size_t)s.of->units * sizeof units[0]) != 0;
            assert_keeps(&s, &selector_slimgpt_paper, units);
        }
    }
    assert_true(matters > 3);
}

TEST(needs_follow_the_kind_of_site)
{
    const selector *const rules[] = {&selector_ziplm,         &selector_slimgpt,
                                     &selector_slimgpt_paper, &selector_gram_css,
                                     &selector_leverage,      &selector_obs};
    for (int i = 0; i < 6; i++) {
        for (int kind = 0; kind < SITE_KINDS; kind++) {
            const site s = {.kind = (site_kind)kind};
            const bool is_shared = kind == SITE_STREAM || kind == SITE_LATENT;
            const unsigned where = is_shared ? NEEDS_ALL_CONSUMERS : 0;
            const unsigned target = is_shared ? 0 : NEEDS_TARGET;
            const unsigned fit = i == 5 ? NEEDS_MEANS | target : 0;
            assert_int_equal(rules[i]->needs(&s), NEEDS_GRAM | where | fit);
            assert_false(rules[i]->folds || rules[i]->draws);
        }
    }
}

CMFixtureFunction support_setup = open_backends, support_teardown = close_backends;
