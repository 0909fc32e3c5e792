#include "run_options.h"

#include "notices.h"
#include "print.h"
#include "shared_options.h"

#include <grail/machine.h>

void run_options_init(run_options *r)
{
    *r = (run_options){0};
    grail_compress_options_init(&r->compress);
    r->compress.run.precision = "auto";
}

/* Uses --calib as text or as images, whichever the model reads. */
static void name_calibration(run_options *r)
{
    grail_compress_options *o = &r->compress;
    o->read.text.path = r->calib;
    r->images.path = r->calib;
    o->read.images = r->calib == NULL ? NULL : &r->images;
}

void run_options_read(run_options *r)
{
    name_calibration(r);
    if (r->threads > 0) {
        grail_set_threads((int)r->threads);
    }
}

static int check_kind(const command *c, const run_options *r, bool reads_images)
{
    const grail_compress_options *o = &r->compress;
    const kind_options of_text = {.given = list_given(grail_text_option_at) || option_given("gqa"),
                                  .names =
                                      "--field, --protocol, --context, --window-bos and --gqa"};
    const kind_options of_images = {
        .given = list_given(grail_image_option_at) || o->fit.conv_fit != NULL ||
                 o->cut.stream_score != NULL || o->fit.repair != 0,
        .names = "--preset, --split, --size, --mean, --std, --conv-fit, --stream-score and "
                 "--repair"};
    return check_kind_options(c, o->read.model, reads_images, of_text, of_images);
}

void run_options_print_notices(const run_options *r)
{
    print_notices(r->compress.read.model, grail_session_model(r->compress.read.session),
                  r->calib != NULL && r->images.preset == NULL);
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
    const char *usual = of_images ? "conv,ffn" : "ffn,heads";
    *sites = r->sites == NULL ? usual : r->sites;
    return check_kind(c, r, of_images);
}
