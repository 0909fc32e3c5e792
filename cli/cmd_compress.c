/* grail compress: narrow a model and repair it. */
#include "command_line.h"
#include "cut_summary.h"
#include "efforts.h"
#include "heal_progress.h"
#include "limit_options.h"
#include "notices.h"
#include "print.h"
#include "process.h"
#include "quality.h"
#include "ranks.h"
#include "shared_options.h"

#include <grail/grail.h>

#include <math.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static const char *sparsity_text;

static const option table[] = {
    {GROUP_OUTPUT, "output", OPTION_TEXT, &asked.compress.output.path, "DIR", NULL,
     .help = "directory to write the narrow model to; must not exist; short form: -o",
     .need = REQUIRED, .recorded = "DIR"},
    RUN_OPTIONS,
    RANK_OPTIONS,
    {GROUP_AMOUNT, "sparsity", OPTION_TEXT, &sparsity_text, "R", NULL,
     .help = "fraction to remove from each site, from 0 to below 1: 0.3, or ffn=0.3,heads=0.2, or "
             "SITE=0.5,...",
     .need = ONE_REQUIRED},
    {GROUP_AMOUNT, "plan", OPTION_TEXT, &asked.compress.amount.plan, "FILE", NULL,
     .help =
         "take selectors and kept units from this plan.json instead of --selector and --sparsity",
     .need = ONE_REQUIRED, .recorded = "plan.json"},
    LIMIT_OPTIONS,
    EFFORT_OPTIONS,
    RUN_FIELDS(GROUP_HEAL, GRAIL_SUBJECT_HEAL),
    EVAL_OPTIONS("the dense network, the plain cut and the result"),
    RUN_FIELDS(GROUP_OUTPUT, GRAIL_SUBJECT_OUTPUT),
    QUIET_OPTION,
    JSON_OPTION,
    {0},
};

static const char *scientific(double value, char *text)
{
    if (!isfinite(value)) {
        snprintf(text, HUMAN_SIZE, "-");
    } else {
        snprintf(text, HUMAN_SIZE, "%.1e", value);
    }
    return text;
}

/* Progress is one line per block, of its sites. It is printed when the block is written or the run
 * fails; until then print_progress shows how far the block is. */
enum { LINE_SIZE = 2000 };
static char line[LINE_SIZE];                  /* what is not printed yet */
static int block_now, block_count, sites_now; /* as last reported to the observers */

static void print_line(void)
{
    print_error("%s\n", line);
    line[0] = 0;
}

/* Appends to the line, or to the next one where it is full: a block may have hundreds of sites. */
static void say(const char *format, ...) GRAIL_PRINTF(1, 2);
static void say(const char *format, ...)
{
    char text[200];
    va_list values;
    va_start(values, format);
    vsnprintf(text, sizeof text, format, values);
    va_end(values);
    if (strlen(line) + strlen(text) >= sizeof line) {
        print_line();
    }
    const size_t used = strlen(line);
    snprintf(line + used, sizeof line - used, "%s", text);
}

static void begin_line(int block, int blocks)
{
    if (line[0] == 0) {
        say("block %d/%d", block + 1, blocks);
    }
}

static void end_line(void)
{
    print_progress_end();
    if (line[0] != 0) {
        print_line();
    }
}

static void print_site(const grail_site_report *s)
{
    char lambda[HUMAN_SIZE];
    say("  %s %lld -> %lld", s->kind, (long long)s->width, (long long)s->narrow);
    if (!isnan(s->fit.fit_after)) {
        const bool held = !isnan(s->fit.held_after);
        say(" error %.4f -> %.4f lambda %s", held ? s->fit.held_before : s->fit.fit_before,
            held ? s->fit.held_after : s->fit.fit_after, scientific(s->fit.lambda, lambda));
    }
    if (strcmp(s->fit.fallback, "none") != 0) {
        say(" [%s]", s->fit.fallback);
    }
    if (s->tied != 0) {
        say(" [scores equal]");
    }
    say(";");
}

static void show_progress(const grail_site_report *site, int block, int blocks, double seconds_left)
{
    char left[HUMAN_SIZE];
    begin_line(block, blocks);
    if (site != NULL) {
        print_site(site);
        return;
    }
    say("  written");
    if (block + 1 < blocks) {
        say(", about %s left", human_seconds(seconds_left, left));
    }
    end_line();
}

static int watch(void *user, const grail_site_report *site, int block, int blocks,
                 double seconds_left)
{
    (void)user;
    block_now = block + 1;
    block_count = blocks;
    sites_now = site == NULL ? 0 : sites_now + 1;
    if (!asked.quiet) {
        show_progress(site, block, blocks, seconds_left);
    }
    return interrupt_came();
}

static int watch_steps(void *user, int block, int blocks, double done)
{
    (void)user;
    if (block < 0) {
        return shared_options_watch_before(block, done);
    }
    block_now = block + 1;
    block_count = blocks;
    print_progress((block + done) / blocks, "block %d/%d: %.0f %%, %d %s done", block + 1, blocks,
                   100.0 * done, sites_now, sites_now == 1 ? "site" : "sites");
    return interrupt_came();
}

static int watch_healing(void *user, const grail_healing *now)
{
    end_line();
    return heal_progress_watch(user, now);
}

static void print_total(const char *what, double before, double after,
                        const char *(*human)(double, char *))
{
    char a[HUMAN_SIZE];
    char b[HUMAN_SIZE];
    print_out("  %-18s %10s -> %10s  (%.1f %%)\n", what, human(before, a), human(after, b),
              before > 0.0 ? 100.0 * after / before : 100.0);
}

/* Says nothing of f32, which loses nothing of what checkpoints hold. */
static void print_precision(const grail_compression_totals *t)
{
    const char *dtype = t->dense.dtype;
    if (strcmp(t->precision, "f16") == 0) {
        print_out("precision: values in f16, with f32 sums; what exceeds 65,504 is an error\n");
    }
    if (strcmp(t->precision, "bf16x3") == 0) {
        print_out("precision: products of f32 made of three of bf16, which lose 8 of 24 bits\n");
        return;
    }
    if (strncmp(t->precision, "bf16", 4) != 0) {
        return;
    }
    print_out("precision: products%s in bf16 with f32 sums%s\n",
              strcmp(t->precision, "bf16-gram") == 0 ? " and Gram matrices" : "",
              strcmp(dtype, "F16") == 0   ? "; weights of F16 lose 3 of 11 bits there, with "
                                            "--precision f32 none"
              : strcmp(dtype, "F32") == 0 ? "; weights of F32 lose 16 of 24 bits there, with "
                                            "--precision f32 none"
                                          : "");
}

/* What a dry run tells. */
typedef struct forecast {
    grail_forecast run;
    quality_forecast measured;
    grail_plan_facts plan; /* zeros: the widths were given */
    double choosing;       /* seconds; NaN: not known */
    bool resume_unknown;   /* the interrupted run has widths that are not chosen yet */
} forecast;

/* What the run would take, from its operations and what a part of it takes here. */
static int make_forecast(const grail_compression *c, const grail_plan *plan, forecast *out)
{
    grail_rates rates = {0};
    grail_status status = grail_rates_measure(&asked.compress, &rates);
    if (status == GRAIL_OK) {
        status = grail_compression_forecast_at(c, &asked.compress, &rates, &out->run);
    }
    if (status == GRAIL_OK && plan != NULL) {
        out->plan = grail_plan_facts_get(plan);
        status = grail_plan_forecast(plan, c, &asked.compress, &rates, &out->choosing);
    }
    return status == GRAIL_OK ? EXIT_OK : print_failure(status);
}

/* What a dry run has not done: the widths that it shows stand for others. */
static void print_stand_in(const grail_plan_facts *plan, double choosing)
{
    char seconds[HUMAN_SIZE];
    print_out(
        "the widths above are uniform ones that meet the limit; --budget %s measures and chooses "
        "others, and who loads those can differ\n",
        plan->budget);
    print_out("choosing them takes ");
    if (plan->trials > 0) {
        print_out("up to %d trials on the samples", plan->trials);
    } else {
        print_out("a pass of the dense network over the samples");
    }
    if (!isnan(choosing)) {
        print_out(", about %s", human_seconds(choosing, seconds));
    }
    print_out("; grail plan does it without a run\n");
}

static void print_run_forecast(const grail_forecast *f)
{
    char seconds[HUMAN_SIZE];
    char bytes[HUMAN_SIZE];
    if (f->samples == 0) {
        print_out("a run reads no samples, and takes about as long as reading and writing the "
                  "weights\n");
        return;
    }
    print_out("a run on %lld samples takes about %s", (long long)f->samples,
              human_seconds(f->seconds, seconds));
    if (f->draw_seconds > 0.0) {
        print_out(", of which drawing them takes %s", human_seconds(f->draw_seconds, seconds));
    }
    if (f->heal_seconds > 0.0) {
        print_out("%s healing takes %s", f->draw_seconds > 0.0 ? " and" : ", of which",
                  human_seconds(f->heal_seconds, seconds));
    }
    print_out(", and %s of memory\n", human_bytes((double)f->bytes, bytes));
}

static void print_resume_forecast(const grail_compression *c, const forecast *f)
{
    const int done = grail_compression_totals_get(c).blocks_done;
    if (f->resume_unknown) {
        print_out("--resume: whether it goes on is known when the widths are chosen\n");
    } else if (asked.compress.output.resume != 0 && done >= 0) {
        print_out("--resume goes on with the interrupted run: %d %s finished\n", done,
                  done == 1 ? "block is" : "blocks are");
    } else if (asked.compress.output.resume != 0) {
        print_out("--resume finds no interrupted run beside '%s', so a new one begins\n",
                  asked.compress.output.path);
    }
}

static void print_forecast(const grail_compression *c, const forecast *f)
{
    if (f->plan.stands_in != 0) {
        print_stand_in(&f->plan, f->choosing);
    }
    print_run_forecast(&f->run);
    print_resume_forecast(c, f);
    if (f->measured.samples > 0) {
        print_out("--eval then measures three networks on %lld %s of %s\n",
                  (long long)f->measured.samples, f->measured.samples_name, asked.data);
    }
    print_out("nothing was written\n");
}

static json_t *forecast_json(const grail_compression *c, const forecast *f)
{
    if (asked.compress.output.dry_run == 0) {
        return json_null();
    }
    const int done = grail_compression_totals_get(c).blocks_done;
    return json_of("seconds", J(f->run.seconds), "heal_seconds", J(f->run.heal_seconds),
                   "draw_seconds", J(f->run.draw_seconds), "bytes", J(f->run.bytes), "samples",
                   J(f->run.samples), "widths_stand_in", J((bool)f->plan.stands_in), "trials",
                   J(f->plan.stands_in != 0 ? f->plan.trials : 0), "choosing_seconds",
                   J(f->choosing), "blocks_done",
                   done < 0 || f->resume_unknown ? json_null() : json_integer(done), "eval_samples",
                   J(f->measured.samples), NULL);
}

static void print_summary(const grail_compression *c, const quality *q)
{
    const grail_compression_totals t = grail_compression_totals_get(c);
    cut_summary_print(c);
    print_out("totals:\n");
    print_total("parameters", (double)t.dense.parameters, (double)t.parameters, human_count);
    print_total("file size", (double)t.dense.bytes, (double)t.bytes, human_bytes);
    const bool of_images = t.dense.reads_images != 0;
    print_total(!of_images           ? "MACs per token"
                : t.dense.inputs > 0 ? "MACs per sample"
                                     : "MACs per image",
                (double)t.dense.macs_per_token, (double)t.macs_per_token, human_count);
    if (!of_images && t.dense.kv_bytes_per_token > 0) {
        print_total("KV bytes per token", (double)t.dense.kv_bytes_per_token,
                    (double)t.kv_bytes_per_token, human_bytes);
    }
    cut_summary_print_loaders(c);
    heal_summaries_print(c);
    print_precision(&t);
    if (of_images && t.samples > 0) {
        print_out("calibration: %lld %s\n", (long long)t.samples,
                  t.dense.inputs > 0 ? "samples" : "images");
    } else if (t.documents != 0) {
        print_out("calibration: %lld documents, one in each window, with %lld tokens\n",
                  (long long)t.samples, (long long)t.calibration_tokens);
        print_full_documents(t.full_documents, t.context);
    } else if (t.samples > 0) {
        print_out("calibration: %lld windows of %lld tokens", (long long)t.samples,
                  (long long)t.context);
        if (t.drawn_samples > 0) {
            print_out(", of which the network drew %lld itself", (long long)t.drawn_samples);
        }
        print_out("\n");
    }
    quality_print(q);
    if (asked.compress.output.dry_run == 0) {
        print_out("written: %s\n", asked.compress.output.path);
    }
}

static json_t *site_json(const grail_site_report *s)
{
    return json_of("site", J(s->name), "kind", J(s->kind), "units", J(s->units), "kept", J(s->kept),
                   "tied", J((bool)s->tied), "lambda", J(s->fit.lambda), "fit_error_before",
                   J(s->fit.fit_before), "fit_error_after", J(s->fit.fit_after),
                   "held_error_before", J(s->fit.held_before), "held_error_after",
                   J(s->fit.held_after), "fallback", J(s->fit.fallback), NULL);
}

/* What the parts took that a time is divided among. */
static json_t *seconds_json(const grail_compression *c, const grail_plan *plan)
{
    const grail_compression_totals t = grail_compression_totals_get(c);
    const double widths = plan == NULL ? 0.0 : grail_plan_facts_get(plan).seconds;
    double healing = 0.0;
    grail_healing h;
    for (int i = 0; grail_compression_healing(c, i, &h) != 0; i++) {
        healing += h.seconds;
    }
    return json_of("measured widths", J(widths), "statistics and fits",
                   J(t.calibrate_seconds + t.compensate_seconds), "healing", J(healing), NULL);
}

static int print_json_summary(const grail_compression *c, const grail_plan *plan,
                              const grail_schedule *schedule, const quality *q, const forecast *f)
{
    const grail_compression_totals t = grail_compression_totals_get(c);
    json_t *sites = json_array();
    json_t *loaders = json_array();
    json_t *notices = shared_options_notices_json(f->measured.class_notice);
    const char *loader = NULL;
    const char *reason = NULL;
    int loads = 0;
    for (int i = 0; i < grail_compression_site_count(c); i++) {
        const grail_site_report s = grail_compression_site(c, i);
        json_array_append_new(sites, site_json(&s));
    }
    for (int i = 0; grail_compression_loader(c, i, &loader, &loads, &reason) != 0; i++) {
        json_array_append_new(loaders, json_of("loader", J(loader), "loads", J((bool)loads),
                                               "reason", J(reason), NULL));
    }
    return print_json(json_of(
        "output", J(asked.compress.output.path), "dense_parameters", J(t.dense.parameters),
        "parameters", J(t.parameters), "dense_bytes", J(t.dense.bytes), "bytes", J(t.bytes),
        "dense_macs_per_token", J(t.dense.macs_per_token), "macs_per_token", J(t.macs_per_token),
        "dense_kv_bytes_per_token", J(t.dense.kv_bytes_per_token), "kv_bytes_per_token",
        J(t.kv_bytes_per_token), "samples", J(t.samples), "context", J(t.context), "shortfall",
        J(t.shortfall), "loaders", loaders, "sites", sites, "healed", heal_summaries_json(c), "cut",
        cut_summary_json(c), "quality", quality_json(q), "forecast", forecast_json(c, f),
        "schedule", efforts_json(schedule), "seconds", seconds_json(c, plan), "notices", notices,
        NULL));
}

/* -- widths ------------------------------------------------------------------------------------ */

static bool parse_fraction(const char *text, double *out)
{
    char *end = NULL;
    *out = strtod(text, &end);
    return end != text && *end == 0 && *out == *out;
}

static int set_kinds(const char *kinds, double fraction)
{
    for (const char *kind = kinds;; kind++) {
        char name[32]; /* longer than any kind, so no truncated name is one */
        const size_t length = strcspn(kind, ",");
        snprintf(name, sizeof name, "%.*s", (int)length, kind);
        double *sparsity = grail_compress_sparsity(&asked.compress, name);
        if (sparsity == NULL) {
            return options_check_word(
                "--sites",
                WORDS("ffn", "heads", "conv", "stream", "experts", "latent", "values", "groups"),
                name);
        }
        *sparsity = fraction;
        kind += length;
        if (*kind == 0) {
            return EXIT_OK;
        }
    }
}

/* The fraction of a kind, or of a single site, which is added to `sites`. */
static int set_pair(char *pair, grail_site_sparsity *sites)
{
    double fraction = 0.0;
    char *equals = strchr(pair, '=');
    if (equals == NULL || !parse_fraction(equals + 1, &fraction)) {
        print_command_error("cannot read --sparsity '%s'; give a fraction such as 0.3, or "
                            "ffn=0.3,heads=0.2, or SITE=0.5",
                            sparsity_text);
        return EXIT_USAGE;
    }
    *equals = 0;
    double *sparsity = grail_compress_sparsity(&asked.compress, pair);
    if (sparsity == NULL) {
        sites[asked.compress.amount.site_sparsity_count++] =
            (grail_site_sparsity){.site = pair, .sparsity = fraction};
        return EXIT_OK;
    }
    if (*sparsity != 0.0) {
        print_command_error("--sparsity names '%s' twice", pair);
        return EXIT_USAGE;
    }
    *sparsity = fraction;
    return EXIT_OK;
}

/* One fraction for all `kinds`, or KEY=FRACTION pairs. What it allocates lasts as long as the
 * program. */
static int read_sparsity(const char *kinds)
{
    static char *words; /* which the names point into */
    static grail_site_sparsity *sites;
    double fraction = 0.0;
    int code = EXIT_OK;
    if (parse_fraction(sparsity_text, &fraction)) {
        return set_kinds(kinds, fraction);
    }
    words = strdup(sparsity_text);
    sites = calloc(strlen(sparsity_text) / 2 + 1, sizeof sites[0]);
    if (words == NULL || sites == NULL) {
        print_command_error("out of memory");
        return EXIT_FAILED;
    }
    char *rest = words;
    asked.compress.amount.site_sparsities = sites;
    for (char *pair = strsep(&rest, ","); pair != NULL && code == EXIT_OK;
         pair = strsep(&rest, ",")) {
        code = set_pair(pair, sites);
    }
    return code;
}

/* A plan says itself what these options say, or leaves it to them. */
static void name_chosen(void)
{
    enum { CHOSEN_SIZE = 1024 };
    static char chosen[CHOSEN_SIZE];
    if (asked.compress.amount.plan != NULL) {
        options_given_fields(chosen, sizeof chosen);
        asked.compress.amount.chosen = chosen;
    }
}

/* The widths come from one place. */
static int read_choices(void)
{
    const bool limited = limit_options_given();
    const int sources = (sparsity_text != NULL ? 1 : 0) +
                        (asked.compress.amount.plan != NULL ? 1 : 0) + (limited ? 1 : 0);
    if (sources != 1) {
        print_command_error("give exactly one of --sparsity, --plan and a limit such as "
                            "--target-ratio");
        return EXIT_USAGE;
    }
    if (asked.sites != NULL && sparsity_text != NULL && strchr(sparsity_text, '=') != NULL) {
        print_command_error("--sites needs one number for --sparsity, but '%s' names kinds or "
                            "sites itself; drop --sites",
                            sparsity_text);
        return EXIT_USAGE;
    }
    return ranks_is_first() ? quality_check() : EXIT_OK;
}

/* Chooses the widths for a limit; the run then takes them as its plan, or that of the interrupted
 * run. */
static int choose_widths(const char *sites, grail_schedule *schedule, grail_plan **plan)
{
    int code = EXIT_OK;
    const char *before = grail_schedule_plan(schedule);
    if (!limit_options_given()) {
        return EXIT_OK;
    }
    if (before == NULL) {
        code = limit_options_choose(sites, plan);
    }
    if (code == EXIT_OK && interrupt_came()) { /* widths of a part of the trials */
        return command_line_print_interrupted(asked.compress.output.path);
    }
    if (code == EXIT_OK) {
        limit_options_note();
        asked.compress.amount.plan_text = before != NULL ? before : grail_plan_text(*plan);
    }
    if (code == EXIT_OK && before == NULL && ranks_is_first() &&
        grail_schedule_keep_plan(schedule, grail_plan_text(*plan)) != GRAIL_OK) {
        code = print_failure(GRAIL_ERROR_IO);
    }
    return code;
}

/* The effort and the time choose before the widths are, and the time goes on. */
static int make_choices(const char *sites, grail_schedule **schedule, grail_plan **plan)
{
    int code = limit_options_given() ? limit_options_read() : EXIT_OK;
    code = code == EXIT_OK
               ? efforts_apply(limit_options_given() ? GRAIL_SCHEDULE_LIMITED : GRAIL_SCHEDULE_RUN,
                               sites, schedule)
               : code;
    code = code == EXIT_OK ? choose_widths(sites, *schedule, plan) : code;
    asked.compress.run.time = code == EXIT_OK ? grail_schedule_left(*schedule) : 0.0;
    return code;
}

/* Says what was interrupted; main then ends the program by the signal. */
static int print_interrupted(void)
{
    print_error("grail: interrupted in block %d of %d", block_now, block_count);
    command_line_print_resume(asked.compress.output.path);
    return EXIT_FAILED;
}

/* On standard error: times are no part of the summary. */
static void print_profile(const grail_compression *c)
{
    grail_profile_part part;
    double seconds = 0.0;
    for (int i = 0; grail_compression_profile(c, i, &part) != 0; i++) {
        seconds += part.seconds;
    }
    for (int i = 0; grail_compression_profile(c, i, &part) != 0; i++) {
        if (i == 0) {
            print_error("where the time went, %.2f s:\n", seconds);
        }
        print_error("  %-12s %9.2f s %5.1f %%", part.name, part.seconds,
                    100.0 * part.seconds / seconds);
        if (part.operations > 0.0) {
            print_error(" %8.1f GFLOP %8.1f GFLOP/s", 1e-9 * part.operations,
                        1e-9 * part.operations / part.seconds);
        }
        print_error("\n");
    }
}

/* Finishes the run, if it is one, and prints what has been written, or would be. `plan` NULL: the
 * widths were given. */
static int report_result(grail_compression *c, const grail_plan *plan, grail_schedule *schedule,
                         forecast *f)
{
    quality q = {.data = NULL};
    const int code =
        asked.compress.output.dry_run != 0 ? make_forecast(c, plan, f) : quality_finish(c, &q);
    if (code != EXIT_OK) {
        return code;
    }
    if (asked.compress.output.dry_run == 0) {
        print_profile(c);
    }
    int printed = asked.as_json ? print_json_summary(c, plan, schedule, &q, f) : EXIT_OK;
    if (!asked.as_json) {
        print_summary(c, &q);
    }
    if (!asked.as_json && asked.compress.output.dry_run != 0) {
        print_forecast(c, f);
    }
    if (asked.compress.output.dry_run == 0 && printed == EXIT_OK) {
        printed = efforts_finish(schedule);
    }
    quality_fini(&q);
    return printed;
}

/* An interrupted run can be recognised only by its own widths. */
static grail_status open_run(const grail_plan *plan, forecast *f, grail_compression **out)
{
    grail_compress_options o = asked.compress;
    f->resume_unknown =
        o.output.resume != 0 && plan != NULL && grail_plan_facts_get(plan).stands_in != 0;
    if (f->resume_unknown) {
        o.output.path = NULL;
        o.output.resume = 0;
    }
    return grail_compression_open(&o, out);
}

static bool names_kinds(void)
{
    return asked.sites != NULL || (sparsity_text != NULL && strchr(sparsity_text, '=') != NULL);
}

/* The default of --sites depends on the model: decoders are cut where the paper cuts them, image
 * networks where stock loaders can still open the result. */
static int compress(void)
{
    grail_compression *c = NULL;
    const char *sites = NULL;
    grail_plan *plan = NULL;
    grail_schedule *schedule = NULL;
    forecast f = {.choosing = 0.0};
    int code = shared_options_open(&sites);
    if (code == EXIT_OK && sparsity_text != NULL) {
        code = read_sparsity(sites);
    }
    code = code == EXIT_OK ? quality_try(&f.measured) : code;
    if (code == EXIT_OK) {
        interrupt_catch();
        code = make_choices(sites, &schedule, &plan);
    }
    if (code != EXIT_OK) {
        goto out;
    }
    grail_status status = open_run(plan, &f, &c);
    if (status == GRAIL_OK) {
        shared_options_print_notices();
        cut_summary_warn(c, names_kinds());
    }
    if (status == GRAIL_OK && asked.compress.output.dry_run == 0) {
        status = grail_compression_run(c);
    }
    end_line();
    if (status == GRAIL_OK) {
        cut_summary_note_memory(c);
        cut_summary_warn_after(c);
    }
    if (status == GRAIL_ERROR_CANCELLED) {
        code = print_interrupted();
    } else if (status != GRAIL_OK) {
        code = c == NULL ? print_failure(status) : command_line_print_failure(status);
    } else if (ranks_is_first()) {
        code = report_result(c, plan, schedule, &f);
        cut_summary_warn_missed(c);
        limit_options_warn_missed(plan);
    }
out:
    grail_compression_close(c);
    grail_plan_free(plan);
    grail_schedule_free(schedule);
    grail_session_close(asked.compress.read.session);
    return code;
}

static int run(const char *const arguments[])
{
    asked.compress.read.model = arguments[0];
    int code = shared_options_read();
    name_chosen();
    code = code == EXIT_OK ? read_choices() : code;
    code = code == EXIT_OK ? ranks_join(&asked.compress.run.comm) : code;
    if (code == EXIT_OK) {
        char *recorded = command_line_recorded();
        asked.compress.output.command = recorded;
        asked.compress.run.observer = watch;
        asked.compress.run.heal_observer = watch_healing;
        asked.compress.run.step_observer = watch_steps;
        code = compress();
        free(recorded);
    }
    return code;
}

const command command_compress = {
    .name = "compress",
    .arguments = "MODEL",
    .argument_count = 1,
    .summary = "narrow a model and repair it in closed form",
    .details =
        "Reads a model directory or a weights file. Removes or merges neurons, attention heads and "
        "channels block by block, and repairs each cut by one ridge regression on calibration text "
        "or images. Writes a directory with the smaller weights, plan.json and report.json.",
    .examples =
        WORDS("grail compress demo/model -o narrow --calib demo/calibration.txt --sparsity 0.3",
              "grail compress demo/model -o ffn --calib demo/calibration.txt --sparsity ffn=0.5 "
              "--selector "
              "wanda",
              "grail compress demo/vision/cnn.pth -o cnn --calib demo/vision/calibration "
              "--sparsity conv=0.5"),
    .first =
        "calib sparsity target-ratio plan sites effort time eval threads backend output resume "
        "dry-run quiet json",
    .options = table,
    .run = run,
    .shares_out = true,
};
