#include "run_options.h"

#include "notices.h"
#include "print.h"
#include "shared_options.h"

#include <grail/machine.h>

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

void run_options_init(run_options *r)
{
    *r = (run_options){0};
    grail_compress_options_init(&r->compress);
    r->compress.run.precision = "auto";
}

/* PATH or PATH=SHARE; a file whose name looks like that is one. */
static int read_part(const command *c, const char *given, grail_text_part *out)
{
    char *end = NULL;
    const char *sign = strrchr(given, '=');
    const double share = sign == NULL ? 0.0 : strtod(sign + 1, &end);
    *out = (grail_text_part){.path = given};
    if (sign == NULL || end == sign + 1 || *end != 0 || access(given, F_OK) == 0) {
        return EXIT_OK;
    }
    if (!(share > 0.0 && share <= 1.0)) {
        print_error("grail %s: --calib takes PATH or PATH=SHARE with a share above 0 and at most "
                    "1, not '%s'; see grail %s --help\n",
                    c->name, given, c->name);
        return EXIT_USAGE;
    }
    out->path = strndup(given, (size_t)(sign - given)); /* for the time of the program */
    out->share = share;
    return EXIT_OK;
}

/* Uses --calib as text or as images, whichever the model reads. */
static int name_calibration(const command *c, run_options *r)
{
    int code = EXIT_OK;
    grail_compress_options *o = &r->compress;
    for (int i = 0; i < r->calibs.count && code == EXIT_OK; i++) {
        code = read_part(c, r->calibs.values[i], &r->parts[i]);
    }
    if (r->calibs.count > 0) {
        o->read.text.path = r->parts[0].path;
        r->images.path = r->parts[0].path;
        o->read.images = &r->images;
    }
    if (r->calibs.count > 1 || r->parts[0].share > 0.0) {
        o->read.parts = r->parts;
        o->read.part_count = r->calibs.count;
    }
    return code;
}

int run_options_read(const command *c, run_options *r)
{
    if (r->threads > 0) {
        grail_set_threads((int)r->threads);
    }
    return name_calibration(c, r);
}

static int check_kind(const command *c, const run_options *r, bool reads_images)
{
    const grail_compress_options *o = &r->compress;
    const kind_options of_text = {.given = list_given(grail_text_option_at) ||
                                           option_given("gqa") || option_given("windows"),
                                  .names = "--field, --protocol, --context, --window-bos, --gqa "
                                           "and --windows"};
    const kind_options of_images = {
        .given = list_given(grail_image_option_at) || option_given("images") ||
                 o->fit.conv_fit != NULL || o->cut.stream_score != NULL || o->fit.repair != 0,
        .names = "--preset, --split, --size, --mean, --std, --images, --conv-fit, --stream-score "
                 "and --repair"};
    return check_kind_options(c, o->read.model, reads_images, of_text, of_images);
}

static bool prepares_images(const run_options *r)
{
    return r->calibs.count > 0 && r->images.preset == NULL;
}

void run_options_print_notices(const run_options *r)
{
    const char *of_samples = grail_session_notice(r->compress.read.session);
    print_notices(r->compress.read.model, grail_session_model(r->compress.read.session),
                  prepares_images(r));
    if (of_samples != NULL && ranks_is_first()) {
        print_error("grail: warning: %s\n", of_samples);
    }
}

json_t *run_options_notices_json(const run_options *r)
{
    model_notices found;
    find_notices(grail_session_model(r->compress.read.session), prepares_images(r), &found);
    return notices_json(&found, grail_session_notice(r->compress.read.session));
}

int run_options_open(const command *c, run_options *r, const char **sites)
{
    grail_model_facts facts = {0};
    const grail_model_options reading = {
        .settings = r->settings.values, .setting_count = r->settings.count, .type = r->type};
    grail_status status =
        grail_session_open(r->compress.read.model, &reading, &r->compress.read.session);
    if (status == GRAIL_OK) {
        status = grail_model_describe(grail_session_model(r->compress.read.session), &facts);
    }
    if (status != GRAIL_OK) {
        return print_failure(status);
    }
    const bool of_images = facts.reads_images != 0;
    if (of_images && r->compress.read.part_count > 0) {
        print_error("grail %s: %s reads images; give one --calib, without a share\n", c->name,
                    r->compress.read.model);
        return EXIT_USAGE;
    }
    const char *usual = of_images ? "conv,ffn" : "ffn,heads";
    *sites = r->sites == NULL ? usual : r->sites;
    return check_kind(c, r, of_images);
}
