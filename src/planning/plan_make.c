/* grail_plan_make: limit, curves, widths, document. */
#include "arch/model_text.h"
#include "base/clock.h"
#include "base/name_list.h"
#include "base/names.h"
#include "base/option_values.h"
#include "base/options.h"
#include "base/output_file.h"
#include "pipeline/ranks.h"
#include "pipeline/request/options.h"
#include "pipeline/request/plan_options.h"
#include "planning/measured.h"
#include "planning/plan_forecast.h"
#include "planning/search.h"
#include "planning/shared.h"
#include "planning/slot_weights.h"
#include "planning/trials.h"
#include "planning/verdict.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

static const char *const limit_names[] = {"params", "macs", "kv-bytes", "size", NULL};

typedef enum budget_kind {
    BUDGET_UNIFORM,
    BUDGET_FLAP,
    BUDGET_SLIMGPT,
    BUDGET_ERROR,
    BUDGET_DIVERGENCE,
    BUDGET_SEARCH,
    BUDGET_KINDS
} budget_kind;

static const char *const budget_names[] = {"uniform",    "flap",   "slimgpt", "error",
                                           "divergence", "search", NULL};

#define FIELD(member) OPTION_FIELD(grail_plan_options, member), .subject = GRAIL_SUBJECT_AMOUNT
#define LIMITS_GIVEN "target-ratio target-params target-macs target-kv-bytes target-size"
#define WEIGHS_NOTHING "budget=uniform budget=flap budget=slimgpt budget=error"
#define NOT_SEARCHED "budget=uniform budget=flap budget=slimgpt budget=error budget=divergence"

/* clang-format off */
static const grail_option fields[] = {
    {FIELD(limit), .type = GRAIL_OPTION_WORD, .what = "limit", .words = limit_names,
     .usual = "params", .key = "limit", .help = "what the limit counts: params, macs, kv-bytes or size (params)"},
    {FIELD(most), .type = GRAIL_OPTION_REAL, .what = "the limit",
     .help = "number of them that may stay"},
    {FIELD(budget), .type = GRAIL_OPTION_WORD, .what = "budget", .words = budget_names,
     .usual = "search", .key = "budget", .name = "budget", .argument = "NAME", .only_with = LIMITS_GIVEN,
     .help = "how widths are chosen for a limit: uniform (the same share everywhere), flap (units "
             "by their scores over the network), slimgpt (more from deeper blocks), error (the "
             "least sum of errors), divergence (the least sum of what each site's cut alone does to "
             "the outputs), search (trials, judged on samples kept apart) (search)"},
    {FIELD(heads_removed), .type = GRAIL_OPTION_NUMBER, .what = "the share of heads to remove",
     .below = 1.0, .key = "heads_removed", .name = "heads-removed", .argument = "R", .only_with = LIMITS_GIVEN,
     .help = "share of all heads to remove, 0 to below 1, with the rest of the cut on the other "
             "sites; for the budgets uniform, flap, error and divergence (chosen by the budget)"},
    {FIELD(uniform_widths), .type = GRAIL_OPTION_FLAG, .key = "uniform_widths",
     .name = "uniform-widths",
     .only_with = LIMITS_GIVEN,
     .help = "give all sites of one kind the same width, as stock loaders want; only the split "
             "between kinds is chosen"},
    {FIELD(uniform_heads), .type = GRAIL_OPTION_FLAG, .key = "uniform_heads",
     .name = "uniform-heads",
     .only_with = LIMITS_GIVEN,
     .help = "give all layers the same heads, and FFNs widths of their own: the form of different "
             "widths that most loaders take"},
    {FIELD(drop_sublayers), .type = GRAIL_OPTION_FLAG,
     .key = "drop_sublayers", .name = "drop-sublayers", .only_with = LIMITS_GIVEN,
     .help = "let whole attentions and FFNs go where that is better, with uniform widths whole "
             "layers; for the budgets search and error"},
    {FIELD(tries), .type = GRAIL_OPTION_INTEGER, .what = "the number of trials",
     .zero_is_usual = 1, .key = "tries", .name = "tries", .argument = "N", .only_with = LIMITS_GIVEN,
     .never_with = NOT_SEARCHED, .help = "trials of a search (48)"},
    {FIELD(seconds), .type = GRAIL_OPTION_REAL, .what = "the time of a search in seconds",
     .zero_is_usual = 1, .name = "search-seconds", .argument = "S", .only_with = LIMITS_GIVEN,
     .never_with = NOT_SEARCHED,
     .help = "begin no trial of a search after this time (no limit)"},
    {FIELD(trial_tokens), .type = GRAIL_OPTION_INTEGER, .what = "the number of tokens of a trial",
     .zero_is_usual = 1, .name = "trial-tokens", .argument = "N", .only_with = LIMITS_GIVEN,
     .never_with = WEIGHS_NOTHING,
     .help = "tokens that the trial of a site alone reads, for the budgets divergence and search: "
             "fewer take less time and tell sites apart less well; images are all read (32768)"},
    OPTION_ROOM(grail_plan_options, room, grail_plan_options),
    {0},
};
/* clang-format on */

const grail_option *grail_plan_option_at(int i)
{
    return option_at(fields, i);
}

const char *grail_budget_at(int i)
{
    return i >= 0 && i < BUDGET_KINDS ? budget_names[i] : NULL;
}

const char *grail_limit_at(int i)
{
    return i >= 0 && i < LIMIT_KINDS ? limit_names[i] : NULL;
}

void grail_plan_options_init(grail_plan_options *options)
{
    *options = (grail_plan_options){0};
    options_init(fields, options);
    grail_compress_options_init(&options->compress);
}

const char *grail_plan_text(const grail_plan *p)
{
    return (const char *)p->text.bytes;
}

grail_plan_facts grail_plan_facts_get(const grail_plan *p)
{
    return p->facts;
}

grail_status grail_plan_check_place(const char *path)
{
    CHECK(option_given("path", "path", path));
    CHECK(name_check_ending(path, "a plan", ".json"));
    return output_file_check_free(path);
}

grail_status grail_plan_write(const grail_plan *p, const char *path)
{
    grail_status status = GRAIL_OK;
    output_file file = {.descriptor = -1};
    TRY(grail_plan_check_place(path));
    TRY(output_file_open(path, false, &file));
    if (dprintf(file.descriptor, "%s\n", grail_plan_text(p)) < 0) {
        FAIL(GRAIL_ERROR_IO, "%s: cannot write: %s", path, strerror(errno));
    }
    TRY(output_file_commit(&file));
out:
    output_file_fini(&file);
    return status;
}

void grail_plan_free(grail_plan *p)
{
    if (p != NULL) {
        buffer_fini(&p->text);
        memory_free(p->formula);
        memory_free(p->reason);
        memory_free(p);
    }
}

/* What the making of a plan goes through. */
typedef struct making {
    const grail_plan_options *options;
    grail_compress_options compress; /* with the session */
    grail_session *own_session;
    compression_request *request; /* nothing is cut in it */
    loss_times times;
    loss_curves curves;
    cost_table costs;
    width_space space;
    drop_space drops; /* zeroed where no sublayer may be dropped */
    bool *dropped;    /* [sites] */
    width_search search;
    int tried;
    verdict verdict; /* of the widths that a budget of trials found */
    double divergence, uniform_divergence, uniform_cost; /* see the facts */
    char reason[2 * VERDICT_TEXT];                       /* "": none */
    limit_kind limited;
    budget_kind asked;
    budget_kind budget; /* asked for, or in a dry run what stands for it */
    bool may_cut[SITE_KINDS];
    int64_t *kept; /* [sites] */
    const char *formula;
} making;

static void making_fini(making *m)
{
    width_search_fini(&m->search);
    drop_space_fini(&m->drops);
    memory_free(m->dropped);
    width_space_fini(&m->space);
    cost_table_fini(&m->costs);
    loss_curves_fini(&m->curves);
    request_close(m->request);
    grail_session_close(m->own_session);
    memory_free(m->kept);
}

static const char *site_kind_at(const void *list, int i)
{
    (void)list;
    return grail_site_kind_at(i);
}

static grail_status unknown_site_kind(const char *text, size_t length)
{
    char name[32]; /* longer than any kind */
    snprintf(name, sizeof name, "%.*s", (int)length, text);
    const grail_status status = error_set(
        GRAIL_ERROR_ARGUMENT, "unknown kind of site '%.*s'; expected one of", (int)length, text);
    error_append_names(name, site_kind_at, NULL);
    return error_about(status, "kinds");
}

/* may_cut[SITE_KINDS] of a list with commas. */
static grail_status read_kinds(const char *kinds, bool *may_cut)
{
    for (const char *at = kinds; *at != 0;) {
        const size_t word = strcspn(at, ",");
        bool known = false;
        for (int k = 0; k < SITE_KINDS; k++) {
            const char *name = site_kind_name((site_kind)k);
            const bool is_named = strlen(name) == word && strncmp(name, at, word) == 0;
            may_cut[k] = may_cut[k] || is_named;
            known = known || is_named;
        }
        if (!known) {
            return unknown_site_kind(at, word);
        }
        at += at[word] == ',' ? word + 1 : word;
    }
    if (may_cut[SITE_HEADS] && may_cut[SITE_VALUES]) {
        return error_about(error_set(GRAIL_ERROR_UNSUPPORTED,
                                     "heads and the channels of their values cannot be cut in one "
                                     "run; choose one, and the other one for the result"),
                           "kinds");
    }
    return may_cut[SITE_EXPERTS]
               ? error_about(error_set(GRAIL_ERROR_UNSUPPORTED,
                                       "a limit chooses widths, not whole experts; drop those with "
                                       "a sparsity of their own"),
                             "kinds")
               : GRAIL_OK;
}

static grail_status check_heads_removed(grail_number share, budget_kind budget)
{
    if (share.choice == GRAIL_NUMBER_GIVEN &&
        (budget == BUDGET_SEARCH || budget == BUDGET_SLIMGPT)) {
        return error_set(GRAIL_ERROR_ARGUMENT,
                         "the budget '%s' chooses the share of heads itself; give it with the "
                         "budgets uniform, flap, error or divergence",
                         budget_names[budget]);
    }
    return GRAIL_OK;
}

/* Chooses widths by what the samples show. */
static bool measures(budget_kind budget)
{
    return budget != BUDGET_UNIFORM && budget != BUDGET_SLIMGPT;
}

/* Judges narrowed networks. */
static bool has_trials(budget_kind budget)
{
    return budget == BUDGET_SEARCH || budget == BUDGET_DIVERGENCE;
}

/* The uniform widths of a dry run drop none. */
static bool may_drop(const making *m)
{
    return m->options->drop_sublayers != 0 && measures(m->budget);
}

static width_sharing sharing_of(const grail_plan_options *o)
{
    return o->uniform_widths != 0 ? SHARE_ALL : o->uniform_heads != 0 ? SHARE_HEADS : SHARE_NONE;
}

/* A network that is healed towards a teacher loses nothing. */
static grail_status check_teacher(const grail_compress_options *o)
{
    return o->heal.teacher == NULL
               ? GRAIL_OK
               : error_about(error_set(GRAIL_ERROR_ARGUMENT,
                                       "widths are planned for a network that is cut, and one that "
                                       "is healed towards '%s' is not; leave out the teacher",
                                       o->heal.teacher),
                             "heal.teacher");
}

static grail_status read_choices(making *m)
{
    int limited = 0;
    int budget = 0;
    const grail_plan_options *o = m->options;
    CHECK(compress_options_check(&o->compress));
    CHECK(options_check(fields, o));
    CHECK(check_teacher(&o->compress));
    CHECK(option_find_word("limit", o->limit, limit_names, &limited));
    CHECK(option_find_word("budget", o->budget, budget_names, &budget));
    CHECK(o->kinds == NULL ? GRAIL_OK : read_kinds(o->kinds, m->may_cut));
    if (!(o->most > 0.0) && !(o->ratio > 0.0 && o->ratio <= 1.0)) {
        return error_about(
            error_set(
                GRAIL_ERROR_ARGUMENT,
                "the limit is %g and its ratio %g; give a limit above 0, or a ratio in (0, 1]",
                o->most, o->ratio),
            "most ratio");
    }
    if (has_trials((budget_kind)budget) && o->compress.fit.open_loop != 0) {
        return error_about(
            error_set(GRAIL_ERROR_ARGUMENT,
                      "the budget '%s' needs a closed loop, in which the narrowed network runs "
                      "beside the dense one; use that, or another budget",
                      budget_names[budget]),
            "fit.open_loop budget");
    }
    if (o->drop_sublayers != 0 && budget != BUDGET_SEARCH && budget != BUDGET_ERROR) {
        return error_set(
            GRAIL_ERROR_ARGUMENT,
            "the budget '%s' gives every sublayer a width; sublayers are dropped by the budgets "
            "search and error",
            budget_names[budget]);
    }
    if (budget == BUDGET_SLIMGPT && sharing_of(o) != SHARE_NONE) {
        return error_about(
            error_set(
                GRAIL_ERROR_ARGUMENT,
                "the budget 'slimgpt' gives every depth its own width; let widths differ, or use "
                "another budget"),
            o->uniform_widths != 0 ? "uniform_widths budget" : "uniform_heads budget");
    }
    CHECK(
        option_about("heads_removed", check_heads_removed(o->heads_removed, (budget_kind)budget)));
    m->limited = (limit_kind)limited;
    m->asked = (budget_kind)budget;
    m->budget = o->compress.output.dry_run != 0 && measures(m->asked) ? BUDGET_UNIFORM
                                                                      : (budget_kind)budget;
    return GRAIL_OK;
}

/* A file of statistics replaces the pass that budgets measure, and not the trials. */
static bool reads_samples(const making *m)
{
    const bool passes = measures(m->budget) && m->options->compress.cut.statistics == NULL;
    return passes || has_trials(m->budget);
}

static grail_status check_samples(const making *m)
{
    const grail_read_options *read = &m->compress.read;
    const bool of_images = read->session->model->graph->input_kind == INPUT_IMAGES;
    const bool given = of_images ? read->images != NULL
                                 : text_source_is_given(&read->text) || read->part_count > 0;
    return !reads_samples(m) || given
               ? GRAIL_OK
               : error_about(error_set(GRAIL_ERROR_ARGUMENT,
                                       "the budget '%s' chooses widths by what it measures on "
                                       "calibration %s; give some, or use the budget uniform or "
                                       "slimgpt",
                                       budget_names[m->budget], of_images ? "images" : "text"),
                             "path budget");
}

/* Measured widths follow from fewer samples than the run's: of the trials, and of the curves, too,
 * which take as long as all trials. */
static grail_status take_fewer_samples(making *m, request_purpose purpose)
{
    const calibration *samples = m->request->samples;
    const int64_t fewer =
        slot_weights_samples(m->request->graph, m->options->trial_tokens,
                             windows_mean_size(&samples->windows), samples->count);
    if (m->budget != BUDGET_DIVERGENCE || fewer == samples->count) {
        return GRAIL_OK;
    }
    m->compress.read.samples = fewer;
    m->compress.read.drawn_first = samples->drawn;
    request_close(m->request);
    m->request = NULL;
    return request_open(&m->compress, purpose, &m->request);
}

/* What a rank checks and opens by itself. */
static grail_status open_request(making *m)
{
    const grail_plan_options *o = m->options;
    CHECK(read_choices(m));
    const request_purpose purpose = {
        .reads_samples = reads_samples(m),
        .judges = m->budget == BUDGET_SEARCH ? JUDGES_CHOICES : JUDGES_NOTHING,
    };
    m->compress = o->compress;
    m->compress.output.path = NULL;
    /* a plan is made from samples, even where nothing is done with it */
    m->compress.output.dry_run = 0;
    m->compress.amount.plan = NULL;
    m->compress.amount.plan_text = NULL;
    m->compress.run.observer = NULL;
    m->compress.amount.site_sparsity_count = 0;
    for (int k = 0; k < SITE_KINDS; k++) {
        *grail_compress_sparsity(&m->compress, site_kind_name((site_kind)k)) = 0.0;
    }
    if (m->compress.read.session == NULL) {
        CHECK(
            grail_session_open(m->compress.read.model, m->compress.read.reading, &m->own_session));
        m->compress.read.session = m->own_session;
    }
    CHECK(check_samples(m));
    CHECK(request_open(&m->compress, purpose, &m->request));
    CHECK(take_fewer_samples(m, purpose));
    m->compress.heal.what = NULL; /* widths are judged by the closed form */
    const bool of_images = m->request->graph->input_kind == INPUT_IMAGES;
    if (o->kinds == NULL) {
        CHECK(read_kinds(of_images ? "conv,ffn" : "ffn,heads", m->may_cut));
    }
    CHECK(memory_new(&m->kept, (size_t)m->request->sites->list.count, sizeof m->kept[0]));
    return memory_new(&m->dropped, (size_t)m->request->sites->list.count, sizeof m->dropped[0]);
}

/* All that decides what is tried, beside the run. */
static grail_status describe_choices(const making *m, buffer *out)
{
    const grail_plan_options *o = m->options;
    const double numbers[] = {o->most, o->ratio, o->heads_removed.value, o->seconds,
                              (double)m->compress.cut.align};
    const int choices[] = {(int)m->limited,   (int)m->budget,   (int)o->heads_removed.choice,
                           o->uniform_widths, o->uniform_heads, o->drop_sublayers,
                           o->tries};
    CHECK(buffer_append(out, numbers, sizeof numbers));
    CHECK(buffer_append(out, m->may_cut, sizeof m->may_cut));
    return buffer_append(out, choices, sizeof choices);
}

/* The ranks go through the same trials. */
static grail_status agree(const making *m)
{
    grail_status status = GRAIL_OK;
    buffer choices = {0};
    const grail_comm *comm = m->request->comm;
    if (!comm_is_shared(comm)) {
        return GRAIL_OK;
    }
    buffer_init(&choices, SIZE_MAX / 4);
    TRY(ranks_agree(m->request, &m->compress));
    TRY(comm_settle(comm, describe_choices(m, &choices)));
    TRY(comm_agree(comm, "the limit or how widths are chosen for it",
                   "give all ranks the same command", choices.bytes, choices.size));
out:
    buffer_fini(&choices);
    return status;
}

static grail_status find_limit(making *m, double *out)
{
    for (int i = 0; i < m->request->sites->list.count; i++) {
        m->kept[i] = site_at(m->request, i)->units;
    }
    CHECK(cost_table_init(m->request->model, &m->request->sites->list, m->may_cut, m->limited,
                          &m->costs));
    const double dense = cost_table_read(&m->costs, m->kept);
    if (!(dense > 0.0)) {
        return error_set(GRAIL_ERROR_ARGUMENT, "the network has no %s to limit",
                         limit_names[m->limited]);
    }
    *out = m->options->most > 0.0 ? m->options->most : floor(m->options->ratio * dense);
    return GRAIL_OK;
}

static formula_choice formula_with(const making *m, width_formula formula)
{
    const grail_number heads = m->options->heads_removed;
    return (formula_choice){.formula = formula,
                            .head_factor = 1.0,
                            .fixes_heads = heads.choice == GRAIL_NUMBER_GIVEN,
                            .heads_removed = heads.value,
                            .dropped = m->dropped};
}

/* -- measured widths --------------------------------------------------------------------------- */

/* kept[sites] <- the widths of a space by weights that are measured in trials; *stopped tells that
 * these were ended early. */
static grail_status measure_widths(making *m, const width_space *space,
                                   const grail_plan_options *options, int64_t *kept, bool *stopped)
{
    grail_status status = GRAIL_OK;
    double *weights = NULL;
    slot_trials made = {0};
    formula_choice choice = formula_with(m, FORMULA_ERRORS);
    TRY(memory_new(&weights, (size_t)space->slot_count, sizeof weights[0]));
    TRY(slot_weights_measure(space, m->request->samples, options, clock_seconds(), weights, &made));
    m->tried += made.count;
    *stopped = made.stopped;
    choice.weights = weights;
    TRY(widths_by_formula(space, choice, kept));
out:
    memory_free(weights);
    return status;
}

/* Takes the widths that the trials found, or uniform ones, uniform[sites]. */
static grail_status take_ahead(making *m, const grail_compress_options *trial,
                               const int64_t *uniform)
{
    const int sites = m->request->sites->list.count;
    const char *name = budget_names[m->budget];
    CHECK(verdict_find(trial, m->kept, uniform, sites, &m->verdict));
    verdict_text(&m->verdict, name, m->reason);
    m->uniform_cost = cost_table_read(&m->costs, uniform);
    if (!m->verdict.is_ahead) {
        memcpy(m->kept, uniform, (size_t)sites * sizeof uniform[0]);
        m->formula = budget_names[BUDGET_UNIFORM];
    }
    return GRAIL_OK;
}

/* What it costs that widths were asked to be uniform: those that may differ, beside the ones that
 * were chosen. */
static grail_status tell_cost(making *m, const grail_plan_options *options,
                              const grail_compress_options *trial)
{
    grail_status status = GRAIL_OK;
    const size_t said = strlen(m->reason);
    char text[VERDICT_TEXT];
    int64_t *kept = NULL;
    verdict v = {0};
    bool stopped = false;
    width_space differing = m->space;
    const int sites = m->request->sites->list.count;
    differing.sharing = SHARE_NONE;
    differing.slot_of = NULL;
    differing.slots = NULL;
    differing.first = NULL;
    differing.slot_count = 0;
    TRY(memory_new(&kept, (size_t)sites, sizeof kept[0]));
    TRY(width_space_init(&differing, m->curves.of, m->may_cut));
    TRY(measure_widths(m, &differing, options, kept, &stopped));
    if (!stopped) {
        TRY(verdict_find(trial, kept, m->kept, sites, &v));
        verdict_cost_text(&v, budget_names[m->budget], text);
        snprintf(m->reason + said, sizeof m->reason - said, "; %s", text);
    }
out:
    width_space_fini(&differing);
    memory_free(kept);
    return status;
}

/* Where trials were stopped, widths follow from what is known, and nothing more is run. */
static grail_status choose_measured(making *m, const grail_plan_options *options,
                                    const int64_t *uniform)
{
    bool stopped = false;
    const calibration *samples = m->request->samples;
    const grail_compress_options trial = slot_trial_options(m->request->graph, samples, options);
    m->formula = budget_names[BUDGET_UNIFORM];
    memcpy(m->kept, uniform, (size_t)m->request->sites->list.count * sizeof uniform[0]);
    if (!trials_can_judge(samples)) {
        snprintf(m->reason, sizeof m->reason,
                 "uniform widths kept: %lld samples make %lld batches, too few to judge others by, "
                 "which takes 4",
                 (long long)samples->count, (long long)samples->batch_count);
        return GRAIL_OK;
    }
    if (m->space.slot_count > 1) {
        m->formula = budget_names[m->budget];
        CHECK(measure_widths(m, &m->space, options, m->kept, &stopped));
        CHECK(stopped ? GRAIL_OK : take_ahead(m, &trial, uniform));
        m->uniform_divergence = stopped ? (double)NAN : m->verdict.uniform_divergence;
        m->divergence = m->verdict.is_ahead ? m->verdict.divergence : m->uniform_divergence;
    } else {
        snprintf(m->reason, sizeof m->reason, "one width, which the limit gives");
    }
    if (stopped) {
        snprintf(m->reason, sizeof m->reason,
                 "widths of '%s' by the %d trials that were made before it was stopped, not judged",
                 m->formula, m->tried);
        return GRAIL_OK;
    }
    return m->space.sharing == SHARE_ALL ? tell_cost(m, options, &trial) : GRAIL_OK;
}

static grail_status choose_by_trials(making *m)
{
    grail_status status = GRAIL_OK;
    grail_plan_options trials = *m->options; /* in the session that the making opened */
    int64_t *uniform = NULL;
    trials.compress = m->compress;
    TRY(memory_new(&uniform, (size_t)m->request->sites->list.count, sizeof uniform[0]));
    if (m->budget == BUDGET_DIVERGENCE) {
        TRY(widths_by_formula(&m->space, formula_with(m, FORMULA_UNIFORM), uniform));
        TRY(choose_measured(m, &trials, uniform));
        goto out;
    }
    TRY(width_search_run(&m->space, may_drop(m) ? &m->drops : NULL, m->request->samples, &trials,
                         &m->search));
    m->search.options = NULL;
    m->tried = m->search.tried;
    memcpy(m->kept, m->search.best.kept, (size_t)m->request->sites->list.count * sizeof m->kept[0]);
    m->formula = m->search.best.name;
    m->divergence = divergence_mean(&m->search.best.judged);
    m->uniform_divergence = m->search.uniform_divergence;
    m->uniform_cost = m->search.uniform_cost;
    if (m->search.stopped) {
        snprintf(m->reason, sizeof m->reason,
                 "the best of %d trials before it was stopped, not judged on other samples",
                 m->tried);
    } else {
        memcpy(uniform, m->search.judged,
               (size_t)m->request->sites->list.count * sizeof uniform[0]);
        TRY(take_ahead(m, &trials.compress, uniform));
        m->divergence = m->verdict.is_ahead ? m->divergence : m->uniform_divergence;
    }
out:
    memory_free(uniform);
    return status;
}

static grail_status choose_widths(making *m)
{
    static const width_formula formulas[BUDGET_KINDS] = {
        [BUDGET_UNIFORM] = FORMULA_UNIFORM,
        [BUDGET_FLAP] = FORMULA_SCORES,
        [BUDGET_SLIMGPT] = FORMULA_DEPTH,
        [BUDGET_ERROR] = FORMULA_ERRORS,
    };
    const bool drops = may_drop(m);
    m->verdict = (verdict){.lead = {(double)NAN, (double)NAN}};
    m->divergence = (double)NAN;
    m->uniform_divergence = (double)NAN;
    m->uniform_cost = (double)NAN;
    if (drops) {
        CHECK(drop_space_init(m->request->model->architecture, &m->space, m->curves.of, &m->drops));
    }
    if (has_trials(m->budget)) {
        return choose_by_trials(m);
    }
    const formula_choice choice = formula_with(m, formulas[m->budget]);
    m->formula = budget_names[m->budget];
    if (drops) {
        CHECK(drops_by_errors(&m->drops, choice, m->dropped));
    }
    return widths_by_formula(&m->space, choice, m->kept);
}

/* With what the widths were chosen for, without which a plan is read. */
static grail_status write_document(const making *m, grail_plan *p)
{
    grail_status status = GRAIL_OK;
    const grail_plan_facts *f = &p->facts;
    json_t *document = json_object();
    json_t *budget_of = json_object();
    plan planned = {0};
    TRY(widths_plan(&m->request->plan, m->kept, &planned));
    TRY(plan_to_json(&planned, &m->request->sites->list, document));
    TRY(json_put(document, "budget", json_incref(budget_of)));
    TRY(json_put(budget_of, "budget", json_text(f->budget)));
    TRY(json_put(budget_of, "formula", json_text(f->formula)));
    TRY(json_put(budget_of, "limit", json_text(f->limit)));
    TRY(json_put(budget_of, "most", json_real_or_null(f->most)));
    TRY(json_put(budget_of, "cost", json_real_or_null(f->cost)));
    TRY(json_put(budget_of, "dense_cost", json_real_or_null(f->dense_cost)));
    TRY(json_put(budget_of, "divergence", json_real_or_null(f->divergence)));
    TRY(json_put(budget_of, "uniform_divergence", json_real_or_null(f->uniform_divergence)));
    TRY(json_put(budget_of, "uniform_cost", json_real_or_null(f->uniform_cost)));
    TRY(json_put(budget_of, "tried", json_integer(f->tried)));
    TRY(json_put(budget_of, "reason", json_text(f->reason)));
    TRY(json_put(budget_of, "ahead", json_real_or_null(f->ahead)));
    TRY(json_put(budget_of, "ahead_error", json_real_or_null(f->ahead_error)));
    TRY(json_append_indented(document, &p->text));
out:
    json_decref(budget_of);
    json_decref(document);
    memory_free(planned.sites);
    return status;
}

/* Slots that the budget 'divergence' narrows alone: with uniform widths also each of those that may
 * differ, which tells what they cost. */
static width_trials trials_of(const making *m)
{
    int differing = 0;
    const int slots = m->space.slot_count > 1 ? m->space.slot_count : 0;
    const bool share = m->space.sharing == SHARE_ALL && m->asked == BUDGET_DIVERGENCE;
    for (int i = 0; share && i < m->request->sites->list.count; i++) {
        const site *s = site_at(m->request, i);
        differing += site_may_be_cut(s, m->may_cut) && s->measure == NULL ? 1 : 0;
    }
    return (width_trials){
        .samples = slot_weights_samples(m->request->graph, m->options->trial_tokens,
                                        m->compress.read.text.context, INT64_MAX),
        .alone = share ? differing : slots,
        .together = share ? slots : 0,
        .verdicts = m->asked != BUDGET_DIVERGENCE ? 0 : (slots > 0 ? 1 : 0) + (share ? 1 : 0),
    };
}

static grail_status finish(making *m, double began, grail_plan *p)
{
    const verdict *v = &m->verdict;
    const width_trials trials = trials_of(m);
    CHECK(memory_copy_string(&p->formula, m->formula));
    CHECK(memory_copy_string(&p->reason, m->reason));
    p->facts = (grail_plan_facts){
        .budget = budget_names[m->asked],
        .stands_in = m->budget != m->asked ? 1 : 0,
        .trials = m->asked == BUDGET_SEARCH       ? width_search_most(m->options)
                  : m->asked == BUDGET_DIVERGENCE ? trials.alone + trials.together
                                                  : 0,
        .limit = limit_names[m->limited],
        .formula = p->formula,
        .dense_cost = m->space.dense_cost,
        .most = m->space.limit,
        .cost = cost_table_read(&m->costs, m->kept),
        .divergence = m->divergence,
        .uniform_divergence = m->uniform_divergence,
        .uniform_cost = m->uniform_cost,
        .tried = m->tried,
        .pass_seconds = m->times.pass,
        .curve_seconds = m->times.curves,
        .reason = p->reason,
        .ahead = v->lead.by,
        .ahead_error = v->lead.error,
    };
    CHECK(write_document(m, p));
    p->facts.seconds = clock_seconds() - began;
    p->most_seconds = m->options->seconds;
    p->searches = m->asked == BUDGET_SEARCH;
    p->trials = trials;
    return GRAIL_OK;
}

/* The session takes what an interrupted run has measured, and hands on what is measured now. */
static grail_status use_schedule(making *m)
{
    grail_schedule *schedule = m->options->schedule;
    grail_session *session = m->compress.read.session;
    if (schedule == NULL || m->options->compress.output.dry_run != 0) {
        return GRAIL_OK;
    }
    session->keeper = schedule_keep_measured;
    session->keeper_user = schedule;
    return schedule_give_measured(schedule, &session->kept);
}

grail_status grail_plan_make(const grail_plan_options *options, grail_plan **out)
{
    grail_status status = GRAIL_OK;
    making m = {.options = options};
    grail_plan *p = NULL;
    double limit = 0.0;
    const double began = clock_seconds();
    const grail_comm *comm = options->compress.run.comm;
    CHECK(comm_check(comm));
    TRY(memory_new(&p, 1, sizeof *p));
    buffer_init(&p->text, SIZE_MAX / 4);
    TRY(comm_settle(comm, open_request(&m)));
    TRY(agree(&m));
    TRY(use_schedule(&m));
    TRY(find_limit(&m, &limit));
    if (measures(m.budget)) {
        TRY(shared_curves(m.request, &m.compress, &m.times, &m.curves));
    }
    m.space = (width_space){.graph = m.request->graph,
                            .sites = &m.request->sites->list,
                            .plan = &m.request->plan,
                            .costs = &m.costs,
                            .limit = limit,
                            .sharing = sharing_of(options),
                            .align = plan_alignment(m.request->model, &m.compress)};
    TRY(width_space_init(&m.space, m.curves.of, m.may_cut));
    TRY(choose_widths(&m));
    TRY(finish(&m, began, p));
out:
    if (m.compress.read.session != NULL) {
        m.compress.read.session->keeper = NULL;
    }
    making_fini(&m);
    status = comm_end(comm, status);
    if (status == GRAIL_OK) {
        *out = p;
        p = NULL;
    }
    grail_plan_free(p);
    return status;
}
