/* grail compress: narrow a model and repair it. */
#include "commands.h"
#include "input_options.h"
#include "interrupt.h"
#include "print.h"
#include "sparsity.h"

#include <grail/grail.h>

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static grail_compress_options o;
static image_options images;
static option_list settings;
static const char *sparsity_text, *sites_text, *align_text = "auto", *calib, *loop = "closed";
static const char *alpha_text, *gqa, *protocol;
static int64_t seed, threads;
static bool quiet, as_json, resume, window_bos, dry_run, repair;

static const option table[] = {
    {"output", OPTION_TEXT, &o.output, "DIR", NULL,
     "directory to write the narrow model to; must not exist; short form: -o"},
    {"calib", OPTION_TEXT, &calib, "PATH", NULL,
     "calibration set. Text: .txt, .jsonl, .jsonl.gz, or token ids as .npy. Images: CIFAR-10 "
     "batches, or a folder of JPEG and PNG files"},
    {"set", OPTION_LIST, &settings, "KEY=VALUE", NULL,
     "setting that the checkpoint lacks or that overrides it, such as activation=quick_gelu; may "
     "be "
     "repeated"},
    {"field", OPTION_TEXT, &o.calibration.field, "NAME", NULL,
     "field of each JSON line that holds the text (text)"},
    {"protocol", OPTION_TEXT, &protocol, "NAME", "plain lines wikitext2 ptb c4",
     "split text into documents and tokens as plain, lines, wikitext2, ptb or c4 (plain)"},
    {"window-bos", OPTION_FLAG, &window_bos, NULL, NULL, "begin every window with the BOS token"},
    {"context", OPTION_INTEGER, &o.calibration.context, "N", NULL,
     "tokens per calibration window (2048, or the model's maximum if that is less)"},
    IMAGE_OPTIONS(images, "train"),
    {"samples", OPTION_INTEGER, &o.samples, "N", NULL,
     "number of calibration windows or images (128, or all if there are fewer)"},
    {"seed", OPTION_INTEGER, &seed, "N", NULL,
     "seed for drawing samples and for random choices (0)"},
    {"selector", OPTION_SELECTOR, &o.selector, "NAME", NULL,
     "rule that chooses the units that stay, or merges units (wanda):"},
    {"sparsity", OPTION_TEXT, &sparsity_text, "R", NULL,
     "fraction to remove from each site, from 0 to below 1: 0.3, or ffn=0.3,heads=0.2, or "
     "SITE=0.5,..."},
    {"sites", OPTION_TEXT, &sites_text, "LIST", "ffn heads conv stream ffn,heads conv,stream",
     "kinds of sites that one --sparsity number cuts: ffn, heads, conv, stream (ffn,heads for "
     "text, conv,ffn for images)"},
    {"stream-score", OPTION_TEXT, &o.stream_score, "NAME", "first all",
     "producers that score the channels of a residual stream: first or all (first)"},
    {"align", OPTION_TEXT, &align_text, "N", "auto 1 8 32 64 128 256",
     "round widths to a multiple of N; 1 does not round; auto rounds FFN widths to a multiple of "
     "256, 128, 64 or 32, and leaves channels as they are (auto)"},
    {"gqa", OPTION_TEXT, &gqa, "MODE", "kv-groups query-per-group",
     "unit that is cut in grouped-query attention: kv-groups or query-per-group (kv-groups)"},
    {"plan", OPTION_TEXT, &o.plan, "FILE", NULL,
     "take selectors and kept units from this plan.json instead of --selector and --sparsity"},
    {"compensate", OPTION_TEXT, &o.compensate, "NAME", "none own grail full",
     "repair of the cuts: none, own (the one that the selector's authors make), grail (as in the "
     "paper), or full; sets the defaults of the next "
     "seven options (full)"},
    {"target", OPTION_TEXT, &o.target, "NAME", "local dense",
     "output that the fit of a consumer aims at: local (the dense weights on the narrowed "
     "network's "
     "activations) or dense (the dense network's output)"},
    {"bias", OPTION_TEXT, &o.bias, "MODE", "off on auto",
     "fit a bias: off, on, or auto (where the checkpoint can store one)"},
    {"conv-fit", OPTION_TEXT, &o.conv_fit, "NAME", "channel kernel",
     "for convolutions: channel fits one map shared by all kernel positions, kernel fits each "
     "position separately"},
    {"ridge", OPTION_TEXT, &o.ridge, "NAME", "zero prior",
     "weights that the fit is shrunk towards: zero, or prior (those of the plain cut)"},
    {"refit", OPTION_TEXT, &o.refit, "NAME", "none auto all",
     "maps that are fitted besides the cut ones: none, all that read what a cut has changed, or "
     "auto (all, where the target is the dense network in a closed loop)"},
    {"ridge-scale", OPTION_TEXT, &o.ridge_scale, "NAME", "mean diagonal",
     "penalty of a feature: mean (the same for all) or diagonal (relative to its own variance)"},
    {"token-weights", OPTION_TEXT, &o.token_weights, "NAME", "none stream",
     "weights of tokens in a fit with the dense target: none, or stream (the inverse square of the "
     "residual stream's norm)"},
    {"alpha", OPTION_TEXT, &alpha_text, "A", "cv",
     "ridge relative to the diagonal of the normal matrix, at least 0; cv chooses it by "
     "cross-validation"},
    {"loop", OPTION_TEXT, &loop, "NAME", "closed open",
     "network that the statistics are taken from: closed (the network as narrowed so far) or open "
     "(the dense network) (closed)"},
    {"repair", OPTION_FLAG, &repair, NULL, NULL,
     "REPAIR: recompute BatchNorm statistics on the narrowed network"},
    {"resume", OPTION_FLAG, &resume, NULL, NULL, "continue an interrupted run from DIR.partial"},
    {"dry-run", OPTION_FLAG, &dry_run, NULL, NULL,
     "print the widths, the totals and who loads the result; write nothing"},
    {"memory", OPTION_SIZE, &o.memory, "BYTES", NULL,
     "memory for kept activations, such as 500M; if they do not fit, blocks are recomputed (half "
     "of the available memory)"},
    {"threads", OPTION_THREADS, &threads, "N", NULL, "number of threads, at most 1024 (all cores)"},
    {"backend", OPTION_BACKEND, &o.backend, "NAME", NULL, "what computes (cpu):"},
    {"quiet", OPTION_FLAG, &quiet, NULL, NULL, "print no progress"},
    {"json", OPTION_FLAG, &as_json, NULL, NULL, "print the summary as JSON"},
    {0},
};
const option *const compress_options = table;

static const char *scientific(double value, char *text)
{
    if (!isfinite(value)) {
        snprintf(text, HUMAN_SIZE, "-");
    } else {
        snprintf(text, HUMAN_SIZE, "%.1e", value);
    }
    return text;
}

/* Progress is one line per block. The line begins at the block's first site, and ends when the
 * block is written or the run fails. */
static bool line_is_open;
static int block_now, block_count; /* as last reported to the observer */

static void begin_line(int block, int blocks)
{
    if (!line_is_open) {
        line_is_open = true;
        print_error("block %d/%d", block + 1, blocks);
    }
}

static void end_line(void)
{
    if (line_is_open) {
        line_is_open = false;
        print_error("\n");
    }
}

static void print_site(const grail_site_report *s)
{
    char lambda[HUMAN_SIZE];
    print_error("  %s %lld -> %lld", s->kind, (long long)s->width, (long long)s->narrow);
    if (!isnan(s->fit.fit_after)) {
        const bool held = !isnan(s->fit.held_after);
        print_error(" error %.4f -> %.4f lambda %s", held ? s->fit.held_before : s->fit.fit_before,
                    held ? s->fit.held_after : s->fit.fit_after, scientific(s->fit.lambda, lambda));
    }
    if (strcmp(s->fit.fallback, "none") != 0) {
        print_error(" [%s]", s->fit.fallback);
    }
    if (s->tied != 0) {
        print_error(" [scores equal]");
    }
    print_error(";");
}

static void show_progress(const grail_site_report *site, int block, int blocks, double seconds_left)
{
    char left[HUMAN_SIZE];
    begin_line(block, blocks);
    if (site != NULL) {
        print_site(site);
        return;
    }
    print_error("  written");
    if (block + 1 < blocks) {
        print_error(", about %s left", human_seconds(seconds_left, left));
    }
    end_line();
}

static int watch(void *user, const grail_site_report *site, int block, int blocks,
                 double seconds_left)
{
    (void)user;
    block_now = block + 1;
    block_count = blocks;
    if (!quiet) {
        show_progress(site, block, blocks, seconds_left);
    }
    return interrupt_came();
}

/* Sites of equal widths share a line, so that a uniform cut takes one line per kind. */
static void print_widths(const grail_compression *c)
{
    print_out("widths:\n");
    for (int i = 0; i < grail_compression_site_count(c); i++) {
        const grail_site_report s = grail_compression_site(c, i);
        int same = 0;
        bool first = true;
        for (int k = 0; k < grail_compression_site_count(c); k++) {
            const grail_site_report other = grail_compression_site(c, k);
            if (strcmp(other.kind, s.kind) == 0 && other.units == s.units && other.kept == s.kept) {
                first = first && k >= i;
                same++;
            }
        }
        if (first) {
            print_out("  %-5s %lld of %lld units kept, width %lld -> %lld, in %d %s\n", s.kind,
                      (long long)s.kept, (long long)s.units, (long long)s.width,
                      (long long)s.narrow, same, same == 1 ? "site" : "sites");
        }
    }
}

static void print_total(const char *what, double before, double after,
                        const char *(*human)(double, char *))
{
    char a[HUMAN_SIZE];
    char b[HUMAN_SIZE];
    print_out("  %-18s %10s -> %10s  (%.1f %%)\n", what, human(before, a), human(after, b),
              before > 0.0 ? 100.0 * after / before : 100.0);
}

static void print_loaders(const grail_compression *c)
{
    const char *loader = NULL;
    const char *reason = NULL;
    int loads = 0;
    print_out("who loads this:\n");
    for (int i = 0; grail_compression_loader(c, i, &loader, &loads, &reason) != 0; i++) {
        print_out("  %-13s %-4s %s\n", loader, loads ? "yes" : "no", reason);
    }
}

/* The fraction of a site's units that the options ask to remove. */
static double asked_of(const grail_site_report *s)
{
    for (int i = 0; i < o.site_sparsity_count; i++) {
        if (strcmp(o.site_sparsities[i].site, s->name) == 0) {
            return o.site_sparsities[i].sparsity;
        }
    }
    const double *sparsity = grail_compress_sparsity(&o, s->kind);
    return sparsity == NULL ? 0.0 : *sparsity;
}

/* It is not an error to name a kind of site that the model lacks, so that one command serves many
 * networks. */
static void warn_missing(const grail_compression *c)
{
    const bool named =
        sites_text != NULL || (sparsity_text != NULL && strchr(sparsity_text, '=') != NULL);
    for (int k = 0; named && grail_site_kind_at(k) != NULL; k++) {
        const char *kind = grail_site_kind_at(k);
        bool there = *grail_compress_sparsity(&o, kind) == 0.0;
        for (int i = 0; i < grail_compression_site_count(c); i++) {
            there = there || strcmp(grail_compression_site(c, i).kind, kind) == 0;
        }
        if (!there) {
            print_error("grail: warning: the model has no sites of kind %s, so nothing of that "
                        "kind is cut\n",
                        kind);
        }
    }
}

/* Rounding to units or to the alignment may leave a site uncut. */
static void warn_uncut(const grail_compression *c)
{
    grail_site_report first = {0};
    int asked = 0;
    int uncut = 0;
    for (int i = 0; o.plan == NULL && i < grail_compression_site_count(c); i++) {
        const grail_site_report s = grail_compression_site(c, i);
        const bool is_asked = asked_of(&s) > 0.0;
        const bool is_uncut = is_asked && s.kept == s.units;
        first = is_uncut && uncut == 0 ? s : first;
        asked += is_asked ? 1 : 0;
        uncut += is_uncut ? 1 : 0;
    }
    if (uncut > 0) {
        print_error("grail: warning: %d of %d sites keep all of their units, such as %s with %lld: "
                    "rounding %s leaves nothing to remove; raise --sparsity or lower --align\n",
                    uncut, asked, first.name, (long long)first.units,
                    o.align > 1 ? "to multiples of --align" : "to units and --align");
    }
}

/* Known after the run only. */
static void warn_tied(const grail_compression *c)
{
    grail_site_report first = {0};
    int cut = 0;
    int tied = 0;
    for (int i = 0; i < grail_compression_site_count(c); i++) {
        const grail_site_report s = grail_compression_site(c, i);
        first = s.tied != 0 && tied == 0 ? s : first;
        cut += s.kept < s.units ? 1 : 0;
        tied += s.tied != 0 ? 1 : 0;
    }
    if (tied > 0) {
        print_error("grail: warning: in %d of %d narrowed sites, such as %s, all units score equal "
                    "under selector %s, so the first ones were kept; choose another --selector, or "
                    "calibrate on more samples\n",
                    tied, cut, first.name, first.selector);
    }
}

static void print_summary(const grail_compression *c)
{
    const grail_compression_totals t = grail_compression_totals_get(c);
    print_widths(c);
    print_out("totals:\n");
    print_total("parameters", (double)t.dense.parameters, (double)t.parameters, human_count);
    print_total("file size", (double)t.dense.bytes, (double)t.bytes, human_bytes);
    const bool of_images = t.dense.reads_images != 0;
    print_total(of_images ? "MACs per image" : "MACs per token", (double)t.dense.macs_per_token,
                (double)t.macs_per_token, human_count);
    if (!of_images) {
        print_total("KV bytes per token", (double)t.dense.kv_bytes_per_token,
                    (double)t.kv_bytes_per_token, human_bytes);
    }
    print_loaders(c);
    if (of_images && t.samples > 0) {
        print_out("calibration: %lld images\n", (long long)t.samples);
    } else if (t.samples > 0) {
        print_out("calibration: %lld windows of %lld tokens\n", (long long)t.samples,
                  (long long)t.context);
    }
    if (!dry_run) {
        print_out("written: %s\n", o.output);
    }
}

static json_t *site_json(const grail_site_report *s)
{
    return json_pack(
        "{s:o, s:o, s:I, s:I, s:b, s:o, s:o, s:o, s:o, s:o, s:o}", "site", json_text(s->name),
        "kind", json_text(s->kind), "units", (json_int_t)s->units, "kept", (json_int_t)s->kept,
        "tied", s->tied, "lambda", json_number_or_null(s->fit.lambda), "fit_error_before",
        json_number_or_null(s->fit.fit_before), "fit_error_after",
        json_number_or_null(s->fit.fit_after), "held_error_before",
        json_number_or_null(s->fit.held_before), "held_error_after",
        json_number_or_null(s->fit.held_after), "fallback", json_text(s->fit.fallback));
}

static int print_json_summary(const grail_compression *c)
{
    const grail_compression_totals t = grail_compression_totals_get(c);
    json_t *sites = json_array();
    json_t *loaders = json_array();
    const char *loader = NULL;
    const char *reason = NULL;
    int loads = 0;
    for (int i = 0; i < grail_compression_site_count(c); i++) {
        const grail_site_report s = grail_compression_site(c, i);
        json_array_append_new(sites, site_json(&s));
    }
    for (int i = 0; grail_compression_loader(c, i, &loader, &loads, &reason) != 0; i++) {
        json_array_append_new(loaders, json_pack("{s:o, s:b, s:o}", "loader", json_text(loader),
                                                 "loads", loads, "reason", json_text(reason)));
    }
    return print_json(json_pack(
        "{s:o, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:o, s:o}", "output",
        json_text(o.output), "dense_parameters", (json_int_t)t.dense.parameters, "parameters",
        (json_int_t)t.parameters, "dense_bytes", (json_int_t)t.dense.bytes, "bytes",
        (json_int_t)t.bytes, "dense_macs_per_token", (json_int_t)t.dense.macs_per_token,
        "macs_per_token", (json_int_t)t.macs_per_token, "dense_kv_bytes_per_token",
        (json_int_t)t.dense.kv_bytes_per_token, "kv_bytes_per_token",
        (json_int_t)t.kv_bytes_per_token, "samples", (json_int_t)t.samples, "context",
        (json_int_t)t.context, "loaders", loaders, "sites", sites));
}

static int bad_value(const char *name, const char *expected, const char *value)
{
    print_error("grail compress: --%s takes %s, not '%s'; see grail compress --help\n", name,
                expected, value);
    return EXIT_USAGE;
}

static int read_align(void)
{
    char *end = NULL;
    if (strcmp(align_text, "auto") == 0) {
        o.align = 0;
        return EXIT_OK;
    }
    o.align = strtoll(align_text, &end, 10); /* INT64_MAX where it overflows */
    const bool valid = end != align_text && *end == 0 && o.align >= 1 && o.align < INT64_MAX;
    return valid ? EXIT_OK : bad_value("align", "auto or an integer of at least 1", align_text);
}

static int read_alpha(void)
{
    char *end = NULL;
    if (alpha_text == NULL) {
        return EXIT_OK;
    }
    if (strcmp(alpha_text, "cv") == 0) {
        o.alpha = (double)INFINITY;
        return EXIT_OK;
    }
    o.alpha = strtod(alpha_text, &end);
    const bool valid = end != alpha_text && *end == 0 && isfinite(o.alpha) && o.alpha >= 0.0;
    return valid ? EXIT_OK : bad_value("alpha", "cv or a number of at least 0", alpha_text);
}

static int read_gqa(void)
{
    if (gqa == NULL || strcmp(gqa, "kv-groups") == 0) {
        return EXIT_OK;
    }
    if (strcmp(gqa, "query-per-group") == 0) {
        o.gqa = GRAIL_GQA_QUERY_PER_GROUP;
        return EXIT_OK;
    }
    return bad_value("gqa", "kv-groups or query-per-group", gqa);
}

static int read_loop(void)
{
    o.open_loop = strcmp(loop, "open") == 0 ? 1 : 0;
    return o.open_loop != 0 || strcmp(loop, "closed") == 0
               ? EXIT_OK
               : bad_value("loop", "closed or open", loop);
}

static int read_choices(void)
{
    int code = read_align();
    code = code == EXIT_OK ? read_loop() : code;
    code = code == EXIT_OK ? read_alpha() : code;
    code = code == EXIT_OK ? read_gqa() : code;
    if (code == EXIT_OK && (sparsity_text == NULL) == (o.plan == NULL)) {
        print_error("grail compress: give exactly one of --sparsity and --plan\n");
        return EXIT_USAGE;
    }
    if (code == EXIT_OK && sites_text != NULL && o.plan == NULL &&
        strchr(sparsity_text, '=') != NULL) {
        print_error("grail compress: --sites needs one number for --sparsity, but '%s' names kinds "
                    "or sites "
                    "itself; drop --sites\n",
                    sparsity_text);
        return EXIT_USAGE;
    }
    if (code == EXIT_OK && o.output == NULL) {
        print_error("grail compress: give the output directory with -o DIR\n");
        return EXIT_USAGE;
    }
    return code;
}

static int check_kind(bool reads_images)
{
    const kind_options of_text = {.given = o.calibration.field != NULL || protocol != NULL ||
                                           o.calibration.context > 0 || window_bos || gqa != NULL,
                                  .names =
                                      "--field, --protocol, --context, --window-bos and --gqa"};
    const kind_options of_images = {
        .given =
            image_options_given(&images) || o.conv_fit != NULL || o.stream_score != NULL || repair,
        .names = "--preset, --split, --size, --mean, --std, --conv-fit, --stream-score and "
                 "--repair"};
    return check_kind_options(&command_compress, o.model, reads_images, of_text, of_images);
}

/* The default of --sites depends on the model: decoders are cut where the paper cuts them, image
 * networks where stock loaders can still open the result. */
static int read_request(sparsity_list *list)
{
    grail_model_facts facts = {0};
    const grail_status status = grail_model_describe(grail_session_model(o.session), &facts);
    if (status != GRAIL_OK) {
        return print_failure(status);
    }
    const bool of_images = facts.reads_images != 0;
    const char *usual = of_images ? "conv,ffn" : "ffn,heads";
    const int code = check_kind(of_images);
    return code != EXIT_OK || sparsity_text == NULL
               ? code
               : sparsity_parse(sparsity_text, sites_text == NULL ? usual : sites_text, &o, list);
}

/* Uses --calib as text or as images, whichever the model reads. */
static void name_calibration(void)
{
    o.calibration.path = calib;
    o.calibration.protocol = protocol == NULL ? "plain" : protocol;
    o.calibration.window_bos = window_bos ? 1 : 0;
    o.images = calib == NULL ? NULL : image_options_source(&images, calib);
}

/* Says what was interrupted; main then ends the program by the signal. */
static int print_interrupted(void)
{
    char *partial = NULL;
    int length = (int)strlen(o.output);
    while (length > 1 && o.output[length - 1] == '/') {
        length--;
    }
    print_error("grail: interrupted in block %d of %d", block_now, block_count);
    if (asprintf(&partial, "%.*s.partial", length, o.output) < 0) {
        partial = NULL;
    }
    if (partial != NULL && access(partial, F_OK) == 0) {
        print_error("; the finished part is in '%s', add --resume to continue", partial);
    }
    print_error("\n");
    free(partial);
    return EXIT_FAILED;
}

static int compress(void)
{
    int code = EXIT_OK;
    sparsity_list list = {0};
    grail_compression *c = NULL;
    const grail_model_options reading = {.settings = settings.values,
                                         .setting_count = settings.count};
    grail_status status = grail_session_open(o.model, &reading, &o.session);
    if (status == GRAIL_OK) {
        code = read_request(&list);
    }
    if (code != EXIT_OK) {
        goto out;
    }
    if (status == GRAIL_OK) {
        status = grail_compression_open(&o, &c);
    }
    if (status == GRAIL_OK) {
        warn_missing(c);
        warn_uncut(c);
    }
    if (status == GRAIL_OK && !dry_run) {
        interrupt_catch();
        status = grail_compression_run(c);
    }
    if (status == GRAIL_OK && !dry_run) {
        status = grail_compression_finish(c);
    }
    end_line();
    if (status == GRAIL_OK) {
        warn_tied(c);
    }
    if (status == GRAIL_ERROR_CANCELLED) {
        code = print_interrupted();
    } else if (status != GRAIL_OK) {
        code = print_failure(status);
    } else if (as_json) {
        code = print_json_summary(c);
    } else {
        print_summary(c);
    }
out:
    grail_compression_close(c);
    grail_session_close(o.session);
    sparsity_list_free(&list);
    return code;
}

static int run(int argc, char **argv)
{
    bool help = false;
    grail_compress_options_init(&o);
    int code = options_parse(&command_compress, table, argc, argv, &o.model, &help);
    if (code != EXIT_OK || help) {
        return code;
    }
    code = read_choices();
    if (code == EXIT_OK) {
        name_calibration();
        o.repair = repair ? 1 : 0;
        o.seed = (uint64_t)seed;
        o.resume = resume ? 1 : 0;
        o.dry_run = dry_run ? 1 : 0;
        o.observer = watch;
        if (threads > 0) {
            grail_set_threads((int)threads);
        }
        code = compress();
    }
    return code;
}

const command command_compress = {
    .name = "compress",
    .arguments = "MODEL",
    .positional_count = 1,
    .summary = "narrow a model and repair it in closed form",
    .details =
        "Reads a model directory or a weights file. Removes or merges neurons, attention heads and "
        "channels block by block, and repairs each cut by one ridge regression on calibration text "
        "or images. Writes a directory with the smaller weights, plan.json and report.json.",
    .run = run,
};
