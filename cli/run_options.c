#include "run_options.h"

#include "notices.h"
#include "print.h"
#include "shared_options.h"

#include <grail/machine.h>

#include <math.h>
#include <stdlib.h>
#include <string.h>

void run_options_init(run_options *r)
{
    *r = (run_options){.align = "auto", .loop = "closed"};
    grail_compress_options_init(&r->compress);
    r->compress.precision = "auto";
}

static int bad_value(const command *c, const char *name, const char *expected, const char *value)
{
    print_error("grail %s: --%s takes %s, not '%s'; see grail %s --help\n", c->name, name, expected,
                value, c->name);
    return EXIT_USAGE;
}

static int read_align(const command *c, run_options *r)
{
    char *end = NULL;
    if (strcmp(r->align, "auto") == 0) {
        r->compress.align = 0;
        return EXIT_OK;
    }
    const int64_t align = strtoll(r->align, &end, 10); /* INT64_MAX where it overflows */
    const bool valid = end != r->align && *end == 0 && align >= 1 && align < INT64_MAX;
    r->compress.align = align;
    return valid ? EXIT_OK : bad_value(c, "align", "auto or an integer of at least 1", r->align);
}

static int read_alpha(const command *c, run_options *r)
{
    char *end = NULL;
    if (r->alpha == NULL) {
        return EXIT_OK;
    }
    if (strcmp(r->alpha, "cv") == 0) {
        r->compress.alpha = (double)INFINITY;
        return EXIT_OK;
    }
    const double alpha = strtod(r->alpha, &end);
    const bool valid = end != r->alpha && *end == 0 && isfinite(alpha) && alpha >= 0.0;
    r->compress.alpha = alpha;
    return valid ? EXIT_OK : bad_value(c, "alpha", "cv or a number of at least 0", r->alpha);
}

/* Uses --calib as text or as images, whichever the model reads. */
static void name_calibration(run_options *r)
{
    grail_compress_options *o = &r->compress;
    o->calibration.path = r->calib;
    o->calibration.protocol = r->protocol == NULL ? "plain" : r->protocol;
    o->calibration.window_bos = r->window_bos ? 1 : 0;
    o->images = r->calib == NULL ? NULL : image_options_source(&r->images, r->calib);
}

int run_options_read(const command *c, run_options *r)
{
    int code = read_align(c, r);
    code = code == EXIT_OK ? read_alpha(c, r) : code;
    if (code != EXIT_OK) {
        return code;
    }
    name_calibration(r);
    r->compress.open_loop = strcmp(r->loop, "open") == 0 ? 1 : 0;
    r->compress.gqa = gqa_mode(r->gqa);
    r->compress.repair = r->repair ? 1 : 0;
    r->compress.seed = (uint64_t)r->seed;
    if (r->threads > 0) {
        grail_set_threads((int)r->threads);
    }
    return EXIT_OK;
}

static int check_kind(const command *c, const run_options *r, bool reads_images)
{
    const grail_compress_options *o = &r->compress;
    const kind_options of_text = {
        .given = o->calibration.field != NULL || r->protocol != NULL ||
                 o->calibration.context > 0 || r->window_bos || r->gqa != NULL,
        .names = "--field, --protocol, --context, --window-bos and --gqa"};
    const kind_options of_images = {
        .given = image_options_given(&r->images) || o->conv_fit != NULL ||
                 o->stream_score != NULL || r->repair,
        .names = "--preset, --split, --size, --mean, --std, --conv-fit, --stream-score and "
                 "--repair"};
    return check_kind_options(c, o->model, reads_images, of_text, of_images);
}

void run_options_print_notices(const run_options *r)
{
    print_notices(r->compress.model, grail_session_model(r->compress.session),
                  r->calib != NULL && image_options_follow_model(&r->images));
}

int run_options_open(const command *c, run_options *r, const char **sites)
{
    grail_model_facts facts = {0};
    const grail_model_options reading = {.settings = r->settings.values,
                                         .setting_count = r->settings.count};
    grail_status status = grail_session_open(r->compress.model, &reading, &r->compress.session);
    if (status == GRAIL_OK) {
        status = grail_model_describe(grail_session_model(r->compress.session), &facts);
    }
    if (status != GRAIL_OK) {
        return print_failure(status);
    }
    const bool of_images = facts.reads_images != 0;
    const char *usual = of_images ? "conv,ffn" : "ffn,heads";
    *sites = r->sites == NULL ? usual : r->sites;
    return check_kind(c, r, of_images);
}
