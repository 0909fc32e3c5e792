/* grail inspect: lists the sites of a model and what it costs. */
#include "commands.h"
#include "print.h"
#include "shared_options.h"

#include <grail/grail.h>

#include <string.h>

static bool as_json;
static option_list settings;
static const char *gqa;

static const option table[] = {
    GQA_OPTION(gqa),
    SET_OPTION(settings),
    JSON_OPTION(as_json),
    {0},
};
const option *const inspect_options = table;

static void print_costs(const grail_model_facts *f)
{
    char a[HUMAN_SIZE];
    char b[HUMAN_SIZE];
    if (f->reads_images == 0) {
        print_out("per token: %s multiply-accumulates in linear layers, %s of KV cache\n\n",
                  human_count((double)f->macs_per_token, a),
                  human_bytes((double)f->kv_bytes_per_token, b));
        return;
    }
    print_out("per image: %s multiply-accumulates; preset %s",
              human_count((double)f->macs_per_token, a), f->preset == NULL ? "unknown" : f->preset);
    if (f->image_side > 0) {
        print_out(", %lld x %lld pixels", (long long)f->image_side, (long long)f->image_side);
    }
    if (f->classes > 0) {
        print_out(", %lld classes", (long long)f->classes);
    }
    print_out("\n\n");
}

static void print_table(const grail_model_facts *f, const grail_site_list *sites)
{
    char a[HUMAN_SIZE];
    char b[HUMAN_SIZE];
    print_out("%s: %s, %s, %lld blocks, %s parameters (%s)\n", f->directory, f->architecture,
              f->dtype, (long long)f->blocks, human_count((double)f->parameters, a),
              human_bytes((double)f->bytes, b));
    print_costs(f);
    print_out("%5s  %-6s  %-44s %7s %9s %7s %12s\n", "block", "kind", "site", "units", "features",
              "width", "parameters");
    for (int i = 0; i < grail_site_list_count(sites); i++) {
        const grail_site_facts s = grail_site_list_at(sites, i);
        print_out("%5d  %-6s  %-44s %7lld %9lld %7lld %12s\n", s.block, s.kind, s.name,
                  (long long)s.units, (long long)s.features_per_unit, (long long)s.width,
                  human_count((double)(s.units * s.parameters_per_unit), a));
    }
}

static json_t *site_json(const grail_site_facts *s)
{
    return json_pack("{s:o, s:o, s:i, s:I, s:I, s:I, s:I, s:I, s:I}", "site", json_text(s->name),
                     "kind", json_text(s->kind), "block", s->block, "units", (json_int_t)s->units,
                     "features_per_unit", (json_int_t)s->features_per_unit, "width",
                     (json_int_t)s->width, "groups", (json_int_t)s->groups, "outputs",
                     (json_int_t)s->outputs, "parameters_per_unit",
                     (json_int_t)s->parameters_per_unit);
}

static int print_as_json(const grail_model_facts *f, const grail_site_list *sites)
{
    json_t *list = json_array();
    for (int i = 0; i < grail_site_list_count(sites); i++) {
        const grail_site_facts s = grail_site_list_at(sites, i);
        json_array_append_new(list, site_json(&s));
    }
    return print_json(json_pack(
        "{s:o, s:o, s:o, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:b, s:I, s:o, s:I, s:o}", "model",
        json_text(f->directory), "architecture", json_text(f->architecture), "dtype",
        json_text(f->dtype), "blocks", (json_int_t)f->blocks, "vocabulary",
        (json_int_t)f->vocabulary, "context", (json_int_t)f->context, "parameters",
        (json_int_t)f->parameters, "bytes", (json_int_t)f->bytes, "macs_per_token",
        (json_int_t)f->macs_per_token, "kv_bytes_per_token", (json_int_t)f->kv_bytes_per_token,
        "reads_images", f->reads_images, "image_side", (json_int_t)f->image_side, "preset",
        json_text_or_null(f->preset), "classes", (json_int_t)f->classes, "sites", list));
}

static int inspect(const char *directory, grail_gqa_mode mode)
{
    int code = EXIT_OK;
    grail_model *model = NULL;
    grail_site_list *sites = NULL;
    grail_model_facts facts = {0};
    const grail_model_options options = {.settings = settings.values,
                                         .setting_count = settings.count};
    grail_status status = grail_model_open_with(directory, &options, &model);
    if (status == GRAIL_OK) {
        status = grail_model_describe(model, &facts);
    }
    if (status == GRAIL_OK) {
        status = grail_model_sites(model, mode, &sites);
    }
    if (status != GRAIL_OK) {
        code = print_failure(status);
    } else if (as_json) {
        code = print_as_json(&facts, sites);
    } else {
        print_table(&facts, sites);
    }
    grail_site_list_free(sites);
    grail_model_close(model);
    return code;
}

static int run(int argc, char **argv)
{
    const char *directory = NULL;
    bool help = false;
    const int code = options_parse(&command_inspect, table, argc, argv, &directory, &help);
    if (code != EXIT_OK || help) {
        return code;
    }
    return inspect(directory, gqa_mode(gqa));
}

static const char *const examples[] = {
    "grail inspect demo/model",
    "grail inspect demo/vision/cnn.pth",
    NULL,
};

const command command_inspect = {
    .name = "inspect",
    .arguments = "MODEL",
    .positional_count = 1,
    .summary = "list the sites of a model, its parameters, and its cost per token or image",
    .examples = examples,
    .run = run,
};
