#include "planning/search.h"

#include "base/clock.h"
#include "base/random.h"
#include "planning/slot_weights.h"
#include "planning/trials.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

/* Formulas and splits that are judged first. */
static const struct {
    const char *name;
    formula_choice choice;
    bool measured; /* errors have weights that are measured */
} openings[] = {
    {"uniform", {.formula = FORMULA_UNIFORM, .head_factor = 1.0}, false},
    {"error", {.formula = FORMULA_ERRORS, .head_factor = 1.0}, false},
    {"divergence", {.formula = FORMULA_ERRORS, .head_factor = 1.0}, true},
    {"error, heads x 3", {.formula = FORMULA_ERRORS, .head_factor = 3.0}, false},
    {"error, heads / 3", {.formula = FORMULA_ERRORS, .head_factor = 1.0 / 3.0}, false},
    {"uniform, heads / 2", {.formula = FORMULA_UNIFORM, .head_factor = 0.5}, false},
    {"uniform, heads x 1.5", {.formula = FORMULA_UNIFORM, .head_factor = 1.5}, false},
    {"uniform, heads whole", {.formula = FORMULA_UNIFORM, .head_factor = 0.0}, false},
    {"error, heads x 10", {.formula = FORMULA_ERRORS, .head_factor = 10.0}, false},
    {"slimgpt", {.formula = FORMULA_DEPTH, .head_factor = 1.0}, false},
    {"flap", {.formula = FORMULA_SCORES, .head_factor = 1.0}, false},
};

/* Factor by which the weight of a slot's error changes. */
static const double weight_step = 2.0;

enum { OPENINGS = sizeof openings / sizeof openings[0], USUAL_TRIES = 48 };

int width_search_most(const grail_plan_options *options)
{
    return options->tries > 0 ? options->tries : USUAL_TRIES;
}

void width_search_fini(width_search *s)
{
    memory_free(s->best.kept);
    divergence_fini(&s->best.judged);
    memory_free(s->trial.kept);
    divergence_fini(&s->trial.judged);
    memory_free(s->judged);
    memory_free(s->measured);
    memory_free(s->weights);
    memory_free(s->dropped);
    *s = (width_search){0};
}

static size_t site_count(const width_search *s)
{
    return (size_t)s->space->sites->count;
}

/* Whether these widths were judged before. */
static bool was_tried(const width_search *s, const int64_t *kept)
{
    const size_t sites = site_count(s);
    for (int i = 0; i < s->tried; i++) {
        if (memcmp(s->judged + (size_t)i * sites, kept, sites * sizeof kept[0]) == 0) {
            return true;
        }
    }
    return false;
}

static grail_status remember(width_search *s, const int64_t *kept)
{
    const size_t sites = site_count(s);
    CHECK(memory_reserve(&s->judged, (size_t)(s->tried + 1) * sites, sizeof s->judged[0]));
    memcpy(s->judged + (size_t)s->tried * sites, kept, sites * sizeof kept[0]);
    s->tried++;
    return GRAIL_OK;
}

static bool is_over(const width_search *s)
{
    return s->stopped || s->tried >= s->most;
}

/* What became of a trial; it is not `tried` where its widths were judged before, or are none that
 * meet the limit. */
typedef struct outcome {
    bool tried, won;
} outcome;

/* Judges the widths of s->trial unless they were judged before, and keeps them when they are the
 * best. What is told to be left are the trials at the pace of those made, or the time, whichever is
 * less. */
static grail_status try_candidate(width_search *s, outcome *made)
{
    width_candidate *c = &s->trial;
    if (was_tried(s, c->kept)) {
        return GRAIL_OK;
    }
    c->cost = cost_table_read(s->space->costs, c->kept);
    divergence_fini(&c->judged);
    CHECK(judge_widths(&s->options->compress, c->kept, JUDGES_CHOICES, NULL, &c->judged));
    CHECK(remember(s, c->kept));
    *made = (outcome){.tried = true,
                      .won = s->tried == 1 || divergence_leads(&c->judged, &s->best.judged, 1.0)};
    const double elapsed = clock_seconds() - s->began;
    const double left = elapsed / s->tried * (s->most - s->tried);
    const double limit = s->options->seconds;
    const grail_plan_trial trial = {
        .name = c->name,
        .cost = c->cost,
        .divergence = divergence_mean(&c->judged),
        .is_best = made->won ? 1 : 0,
        .tried = s->tried,
        .most = s->most,
        .seconds_left = limit > 0.0 ? fmax(0.0, fmin(left, limit - elapsed)) : left,
    };
    const grail_status status = trials_tell(s->options, s->began, &trial, &s->stopped);
    if (made->won) {
        const width_candidate before = s->best;
        s->best = *c;
        *c = before;
    }
    return status;
}

bool width_search_weighs(int most, double alone)
{
    enum { WEIGHED_PART = 4 };
    return alone * WEIGHED_PART <= most;
}

static bool can_measure(const width_search *s)
{
    const int64_t count = s->samples->count;
    const int64_t taken = slot_weights_samples(s->space->graph, s->options->trial_tokens,
                                               windows_mean_size(&s->samples->windows), count);
    const double part = (double)taken / (double)count;
    const double alone = slot_weights_compressions(s->space->slot_count, part);
    return s->space->slot_count > 1 && width_search_weighs(s->most, alone);
}

/* Errors have weights that are measured, unless that would cost too much, or the search has to end
 * meanwhile. */
static grail_status try_opening(width_search *s, int index)
{
    outcome made = {0};
    formula_choice choice = openings[index].choice;
    if (openings[index].measured) {
        slot_trials trials = {0};
        if (!can_measure(s)) {
            return GRAIL_OK;
        }
        CHECK(memory_new(&s->measured, (size_t)s->space->slot_count, sizeof s->measured[0]));
        CHECK(
            slot_weights_measure(s->space, s->samples, s->options, s->began, s->measured, &trials));
        s->stopped = trials.stopped;
        if (s->stopped) {
            return GRAIL_OK;
        }
        choice.weights = s->measured;
    }
    snprintf(s->trial.name, sizeof s->trial.name, "%s", openings[index].name);
    const grail_status status = widths_by_formula(s->space, choice, s->trial.kept);
    if (status == GRAIL_ERROR_ARGUMENT && index > 0) {
        return GRAIL_OK; /* a split that cannot meet the limit is none of the candidates */
    }
    CHECK(status);
    CHECK(try_candidate(s, &made));
    if (index == 0) {
        s->uniform_divergence = divergence_mean(&s->best.judged);
        s->uniform_cost = s->best.cost;
    } else if (choice.formula == FORMULA_ERRORS && made.won) {
        s->head_factor = choice.head_factor;
        s->by_measured = openings[index].measured;
    }
    return GRAIL_OK;
}

static bool can_use(const width_space *space, int opening)
{
    const width_formula formula = openings[opening].choice.formula;
    const bool split = openings[opening].choice.head_factor != 1.0;
    bool heads = false;
    bool others = false;
    for (int i = 0; i < space->slot_count; i++) {
        heads = heads || width_space_of_heads(space, i);
        others = others || !width_space_of_heads(space, i);
    }
    return (!split || (heads && others)) &&
           (formula != FORMULA_DEPTH || space->sharing == SHARE_NONE) &&
           (formula != FORMULA_SCORES || width_space_has_scores(space));
}

/* What the widths by weighted errors follow from: the sum of the weighted errors is least at the
 * best widths so far, which that formula makes. */
static grail_status begin_weighting(width_search *s)
{
    CHECK(memory_new(&s->weights, (size_t)s->space->slot_count, sizeof s->weights[0]));
    CHECK(memory_new(&s->dropped, site_count(s), sizeof s->dropped[0]));
    for (int i = 0; i < s->space->slot_count; i++) {
        const double measured = s->by_measured ? s->measured[i] : 1.0;
        s->weights[i] = measured * (width_space_of_heads(s->space, i) ? s->head_factor : 1.0);
    }
    return GRAIL_OK;
}

/* Judges the widths that follow, where some meet the limit. */
static grail_status try_weighting(width_search *s, outcome *made)
{
    const formula_choice choice = {.formula = FORMULA_ERRORS,
                                   .head_factor = 1.0,
                                   .weights = s->weights,
                                   .dropped = s->dropped};
    const grail_status status = widths_by_formula(s->space, choice, s->trial.kept);
    if (status == GRAIL_ERROR_ARGUMENT) {
        return GRAIL_OK;
    }
    CHECK(status);
    return try_candidate(s, made);
}

/* Judges the widths with one slot's error weighed differently; keeps the weight when it wins. */
static grail_status try_weight(width_search *s, int slot, double factor, bool *won)
{
    outcome made = {0};
    const double before = s->weights[slot];
    snprintf(s->trial.name, sizeof s->trial.name, "error, slot %d x %g", slot, factor);
    s->weights[slot] *= factor;
    const grail_status status = try_weighting(s, &made);
    if (!made.won) {
        s->weights[slot] = before;
    }
    *won = made.won;
    return status;
}

/* Slot by slot in random order, until a sweep changes nothing. */
static grail_status improve_weights(width_search *s, random_state *random)
{
    grail_status status = GRAIL_OK;
    const int slots = s->space->slot_count;
    int64_t *order = NULL;
    bool any = true;
    for (size_t i = 0; i < site_count(s); i++) {
        s->dropped[i] = s->best.kept[i] == 0;
    }
    TRY(memory_new(&order, (size_t)slots, sizeof order[0]));
    while (any && slots > 1 && !is_over(s)) {
        any = false;
        random_permutation(random, slots, order);
        for (int i = 0; i < slots && !is_over(s); i++) {
            bool won = false;
            TRY(try_weight(s, (int)order[i], weight_step, &won));
            if (!won && !is_over(s)) {
                TRY(try_weight(s, (int)order[i], 1.0 / weight_step, &won));
            }
            any = any || won;
        }
    }
out:
    memory_free(order);
    return status;
}

static void begin_with_best(width_search *s)
{
    memcpy(s->trial.kept, s->best.kept, site_count(s) * sizeof s->trial.kept[0]);
}

/* Judges the best widths without a choice that they have, or with one that they lack; the others
 * are scaled to the limit. */
static grail_status try_drop(width_search *s, int choice, outcome *made)
{
    bool possible = false;
    begin_with_best(s);
    snprintf(s->trial.name, sizeof s->trial.name, "%s %s",
             drop_space_lacks(s->drops, choice, s->trial.kept) ? "again with" : "without",
             s->drops->choices[choice].name);
    CHECK(drop_space_switch(s->drops, choice, s->trial.kept, &possible));
    return possible ? try_candidate(s, made) : GRAIL_OK;
}

/* Drops one choice after the other as long as it helps, then takes each back. Blocks first: their
 * sublayers alone can all seem needed. */
static grail_status improve_drops(width_search *s)
{
    for (int round = 0; round < 4 && s->drops != NULL; round++) {
        const bool back = round >= 2;
        const bool of_blocks = round % 2 == 0;
        const int end = of_blocks ? s->drops->blocks : s->drops->count;
        int failures = 0;
        for (int i = of_blocks ? 0 : s->drops->blocks;
             i < end && failures < DROP_FAILURES && !is_over(s); i++) {
            outcome made = {0};
            if (drop_space_lacks(s->drops, i, s->best.kept) == back) {
                CHECK(try_drop(s, i, &made));
                failures = made.won ? 0 : failures + (made.tried ? 1 : 0);
            }
        }
    }
    return GRAIL_OK;
}

/* Judges the widths without all sublayers that errors alone would drop. */
static grail_status try_drops_by_errors(width_search *s)
{
    const formula_choice choice = {
        .formula = FORMULA_ERRORS, .head_factor = 1.0, .weights = s->weights};
    outcome made = {0};
    if (s->drops != NULL && !is_over(s)) {
        CHECK(drops_by_errors(s->drops, choice, s->dropped));
        snprintf(s->trial.name, sizeof s->trial.name, "error, without sublayers");
        CHECK(try_weighting(s, &made));
    }
    return GRAIL_OK;
}

/* A move: units of one slot go, and the cost that this frees pays for units of another. */
typedef struct width_move {
    int from, to;
    double share; /* of the units that `from` has now */
} width_move;

/* The largest width of a slot with which the network stays below the limit. */
static void widen_slot(const width_search *s, int slot, int64_t *kept)
{
    const allocation_site *a = &s->space->slots[slot];
    const int64_t begin = width_space_slot(s->space, slot, kept);
    int64_t low = begin;
    for (int64_t jump = (a->units - begin + a->step - 1) / a->step; jump > 0; jump /= 2) {
        int64_t width = low + jump * a->step;
        width = width > a->units ? a->units : width;
        width_space_set_slot(s->space, slot, width, kept);
        low = cost_table_read(s->space->costs, kept) <= s->space->limit ? width : low;
    }
    width_space_set_slot(s->space, slot, low, kept);
}

static grail_status try_move(width_search *s, width_move move, outcome *made)
{
    const allocation_site *from = &s->space->slots[move.from];
    const allocation_site *to = &s->space->slots[move.to];
    int64_t *kept = s->trial.kept;
    begin_with_best(s);
    const int64_t width = width_space_slot(s->space, move.from, kept);
    const int64_t before = width_space_slot(s->space, move.to, kept);
    const double fewest = to->cost > 0.0 && from->cost > 0.0
                              ? to->cost * (double)to->step / from->cost
                              : 0.0; /* units of `from` that pay for one step of `to` */
    double units = move.share * (double)width;
    units = units > fewest ? units : fewest;
    const int64_t steps = (int64_t)ceil(units / (double)from->step);
    const int64_t less = width - steps * from->step;
    if (less < from->least || before == to->units || before == 0) {
        return GRAIL_OK;
    }
    width_space_set_slot(s->space, move.from, less, kept);
    widen_slot(s, move.to, kept);
    if (width_space_slot(s->space, move.to, kept) == before) {
        return GRAIL_OK;
    }
    CHECK(width_space_fill(s->space, kept));
    snprintf(s->trial.name, sizeof s->trial.name, "move %d > %d", move.from, move.to);
    return try_candidate(s, made);
}

/* Random moves from the best; a move that helps is made again. Ends when many in a row change
 * nothing. */
static grail_status improve_by_moves(width_search *s, random_state *random)
{
    enum { MOST_IDLE = 200, DROPS_AMONG_MOVES = 6 };
    static const double shares[] = {0.2, 0.1, 0.05};
    int idle = 0;
    while (!is_over(s) && idle < MOST_IDLE && s->space->slot_count > 1) {
        const int64_t slots = s->space->slot_count;
        outcome made = {0};
        if (s->drops != NULL && random_below(random, DROPS_AMONG_MOVES) == 0) {
            CHECK(try_drop(s, (int)random_below(random, s->drops->count), &made));
            idle = made.tried ? 0 : idle + 1;
            continue;
        }
        const width_move move = {.from = (int)random_below(random, slots),
                                 .to = (int)random_below(random, slots),
                                 .share = shares[random_below(random, 3)]};
        made.won = move.from != move.to;
        while (made.won && !is_over(s)) {
            made = (outcome){0};
            CHECK(try_move(s, move, &made));
        }
        idle = made.tried ? 0 : idle + 1;
    }
    return GRAIL_OK;
}

grail_status width_search_run(const width_space *space, const drop_space *drops,
                              const calibration *samples, const grail_plan_options *options,
                              width_search *s)
{
    random_state random;
    *s = (width_search){
        .head_factor = 1.0,
        .space = space,
        .drops = drops,
        .samples = samples,
        .options = options,
        .most = width_search_most(options),
        .began = clock_seconds(),
    };
    CHECK(memory_new(&s->best.kept, site_count(s), sizeof s->best.kept[0]));
    CHECK(memory_new(&s->trial.kept, site_count(s), sizeof s->trial.kept[0]));
    for (int i = 0; i < OPENINGS && (i == 0 || !is_over(s)); i++) {
        if (can_use(space, i)) {
            CHECK(try_opening(s, i));
        }
    }
    random_seed(&random, options->compress.read.seed, 1);
    CHECK(begin_weighting(s));
    CHECK(try_drops_by_errors(s));
    CHECK(improve_drops(s));
    CHECK(improve_weights(s, &random));
    CHECK(improve_drops(s));
    return improve_by_moves(s, &random);
}
