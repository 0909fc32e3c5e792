/* grail inspect: lists the sites of a model and what it costs. */
#include "cut_summary.h"
#include "notices.h"
#include "print.h"
#include "shared_options.h"

#include <grail/grail.h>

#include <stdlib.h>
#include <string.h>

static const char *gqa;

static const option table[] = {
    {GROUP_CUT, "gqa", OPTION_WORD, &gqa, "MODE", WORDS("kv-groups", "query-per-group"),
     .help = "unit that is cut in grouped-query attention: kv-groups or query-per-group "
             "(kv-groups)"},
    SET_OPTION,
    JSON_OPTION,
    {0},
};

/* Returns NULL after keeping in `failure` why what the checkpoint says cannot be used; also for a
 * network of text, without a failure. */
static const grail_preprocessing *preprocessing_of(const grail_model *model,
                                                   const grail_model_facts *f, char **failure)
{
    static grail_preprocessing p;
    if (f->reads_images == 0 || f->inputs > 0) {
        return NULL;
    }
    if (grail_model_preprocessing(model, &p) != GRAIL_OK) {
        *failure = strdup(grail_error_message());
        return NULL;
    }
    return &p;
}

static void print_preprocessing(const grail_preprocessing *p)
{
    if (p->edges == NULL) {
        print_out("images: %lld x %lld pixels, not resized", (long long)p->crop,
                  (long long)p->crop);
    } else {
        print_out("images: %s to %lld, %s, crop %lld",
                  strcmp(p->edges, "both") == 0 ? "both edges" : "shorter edge",
                  (long long)p->resize, p->interpolation, (long long)p->crop);
    }
    print_out("; times %.6g, mean %g %g %g, std %g %g %g (%s)\n", p->rescale, p->mean[0],
              p->mean[1], p->mean[2], p->deviation[0], p->deviation[1], p->deviation[2],
              p->origin == NULL ? "assumed" : p->origin);
}

static void print_reading(const grail_model *model, const grail_model_facts *f)
{
    char *failure = NULL;
    const grail_preprocessing *p = preprocessing_of(model, f, &failure);
    if (p != NULL) {
        print_preprocessing(p);
    }
    if (f->reads_images != 0) {
        print_out("activation: %s%s\n", f->activation == NULL ? "none" : f->activation,
                  f->activation_notice == NULL ? "" : " (assumed)");
    }
    if (failure != NULL) {
        print_error("grail: note: %s\n", failure);
    }
    free(failure);
    print_out("\n");
}

static void print_costs(const grail_model_facts *f)
{
    char a[HUMAN_SIZE];
    char b[HUMAN_SIZE];
    if (f->reads_images == 0 && f->gives_features != 0) {
        print_out("per token: %s multiply-accumulates in linear layers; encoder, gives hidden "
                  "states\n",
                  human_count((double)f->macs_per_token, a));
        return;
    }
    if (f->reads_images == 0) {
        print_out("per token: %s multiply-accumulates in linear layers, %s of KV cache\n",
                  human_count((double)f->macs_per_token, a),
                  human_bytes((double)f->kv_bytes_per_token, b));
        return;
    }
    print_out("per %s: %s multiply-accumulates", f->inputs > 0 ? "sample" : "image",
              human_count((double)f->macs_per_token, a));
    if (f->inputs == 0) {
        print_out("; preset %s", f->preset == NULL ? "unknown" : f->preset);
    }
    if (f->image_side > 0 && f->inputs == 0) {
        print_out(", %lld x %lld pixels", (long long)f->image_width, (long long)f->image_side);
    }
    if (f->channels != 3 && f->inputs == 0) {
        print_out(", %lld channel%s", (long long)f->channels, f->channels == 1 ? "" : "s");
    }
    if (f->classes > 0) {
        print_out(", %lld classes", (long long)f->classes);
    }
    print_out("\n");
}

static grail_status print_inputs(const grail_model *model, const grail_model_facts *f)
{
    for (int i = 0; i < f->inputs; i++) {
        grail_input_facts in = {0};
        const grail_status status = grail_model_input(model, i, &in);
        if (status != GRAIL_OK) {
            return status;
        }
        print_out("input %s: ", in.name);
        if (in.channels > 0 && in.is_integer && in.rows > 0) {
            print_out("%lld integers 0 to %lld", (long long)in.channels, (long long)in.rows - 1);
        } else if (in.channels > 0) {
            print_out("%lld %s", (long long)in.channels, in.is_integer ? "integers" : "channels");
        } else if (in.rows > 0) {
            print_out("integers 0 to %lld for each position", (long long)in.rows - 1);
        } else {
            print_out("mask, 0 where positions are padding");
        }
        if (in.height * in.width > 1) {
            print_out(", %lld x %lld", (long long)in.height, (long long)in.width);
        }
        print_out("\n");
    }
    return GRAIL_OK;
}

/* What classifiers give is said by their classes. */
static grail_status print_outputs(const grail_model *model, const grail_model_facts *f)
{
    for (int i = 0; f->reads_images != 0 && i < f->outputs; i++) {
        grail_output_facts o = {0};
        const grail_status status = grail_model_output(model, i, &o);
        if (status != GRAIL_OK) {
            return status;
        }
        if (f->outputs == 1 && o.rows[0] * o.rows[1] == 1) {
            break;
        }
        print_out("output %s: %lld %s", o.name == NULL ? "" : o.name, (long long)o.width,
                  o.is_logits != 0 ? "logits" : "channels");
        if (o.rows[0] * o.rows[1] > 1) {
            print_out(", %lld x %lld", (long long)o.rows[0], (long long)o.rows[1]);
        }
        print_out("\n");
    }
    return GRAIL_OK;
}

static grail_status print_table(const grail_model *model, const grail_model_facts *f,
                                const grail_site_list *sites)
{
    char a[HUMAN_SIZE];
    char b[HUMAN_SIZE];
    print_out("%s: %s, %s, %lld blocks, %s parameters (%s)\n", f->directory, f->architecture,
              f->dtype, (long long)f->blocks, human_count((double)f->parameters, a),
              human_bytes((double)f->bytes, b));
    print_costs(f);
    grail_status status = print_inputs(model, f);
    status = status == GRAIL_OK ? print_outputs(model, f) : status;
    if (status != GRAIL_OK) {
        return status;
    }
    print_reading(model, f);
    width_note note = {0};
    print_out("%5s  %-6s  %-44s %7s %9s %7s %12s\n", "block", "kind", "site", "units", "features",
              "width", "parameters");
    for (int i = 0; i < grail_site_list_count(sites); i++) {
        const grail_site_facts s = grail_site_list_at(sites, i);
        print_out("%5d  %-6s  %-44s %7lld %9lld %7lld %12s\n", s.block, s.kind, s.name,
                  (long long)s.units, (long long)s.features_per_unit, (long long)s.width,
                  human_count((double)(s.units * s.parameters_per_unit), a));
        cut_summary_note_width(s.name, s.width, &note);
    }
    cut_summary_print_note(&note, "");
    return GRAIL_OK;
}

static void print_regions(const grail_model *model)
{
    grail_region_facts r;
    for (int i = 0; (r = grail_model_region_at(model, i)).node != NULL; i++) {
        if (i == 0) {
            print_out("\n");
        }
        print_out("region of %lld node%s, %lld channels: %s: %s\n", (long long)r.nodes,
                  r.nodes == 1 ? "" : "s", (long long)r.channels, r.node, r.reason);
    }
}

static json_t *regions_json(const grail_model *model)
{
    json_t *list = json_array();
    grail_region_facts r;
    for (int i = 0; (r = grail_model_region_at(model, i)).node != NULL; i++) {
        json_array_append_new(list, json_of("node", J(r.node), "reason", J(r.reason), "nodes",
                                            J(r.nodes), "channels", J(r.channels), NULL));
    }
    return list;
}

static json_t *site_json(const grail_site_facts *s)
{
    return json_of("site", J(s->name), "kind", J(s->kind), "block", J(s->block), "units",
                   J(s->units), "features_per_unit", J(s->features_per_unit), "width", J(s->width),
                   "groups", J(s->groups), "outputs", J(s->outputs), "parameters_per_unit",
                   J(s->parameters_per_unit), NULL);
}

static json_t *triple(const double values[3])
{
    return json_pack("[f,f,f]", values[0], values[1], values[2]);
}

static json_t *preprocessing_json(const grail_preprocessing *p)
{
    return p == NULL ? json_null()
                     : json_of("preset", J(p->preset), "origin", J(p->origin), "edges", J(p->edges),
                               "resize", J(p->resize), "crop", J(p->crop), "interpolation",
                               J(p->interpolation), "rescale", J(p->rescale), "mean",
                               triple(p->mean), "std", triple(p->deviation), NULL);
}

static json_t *inputs_of_model(const grail_model *model, const grail_model_facts *f)
{
    json_t *list = json_array();
    grail_input_facts in = {0};
    for (int i = 0; i < f->inputs && grail_model_input(model, i, &in) == GRAIL_OK; i++) {
        json_array_append_new(list,
                              json_of("name", J(in.name), "channels", J(in.channels), "height",
                                      J(in.height), "width", J(in.width), "rows", J(in.rows),
                                      "is_integer", J((bool)in.is_integer), NULL));
    }
    return list;
}

static json_t *outputs_of_model(const grail_model *model, const grail_model_facts *f)
{
    json_t *list = json_array();
    grail_output_facts o = {0};
    for (int i = 0; i < f->outputs && grail_model_output(model, i, &o) == GRAIL_OK; i++) {
        json_array_append_new(
            list, json_of("name", J(o.name), "width", J(o.width), "rows",
                          json_pack("[I,I]", (json_int_t)o.rows[0], (json_int_t)o.rows[1]),
                          "is_logits", J((bool)o.is_logits), NULL));
    }
    return list;
}

static int print_as_json(const grail_model *model, const grail_model_facts *f,
                         const grail_site_list *sites)
{
    char *failure = NULL;
    const grail_preprocessing *p = preprocessing_of(model, f, &failure);
    json_t *heard = notices_json(model, p != NULL, failure, NULL);
    free(failure);
    json_t *list = json_array();
    for (int i = 0; i < grail_site_list_count(sites); i++) {
        const grail_site_facts s = grail_site_list_at(sites, i);
        json_array_append_new(list, site_json(&s));
    }
    return print_json(
        json_of("model", J(f->directory), "architecture", J(f->architecture), "dtype", J(f->dtype),
                "blocks", J(f->blocks), "vocabulary", J(f->vocabulary), "context", J(f->context),
                "parameters", J(f->parameters), "bytes", J(f->bytes), "macs_per_token",
                J(f->macs_per_token), "kv_bytes_per_token", J(f->kv_bytes_per_token),
                "reads_images", J((bool)f->reads_images), "image_side", J(f->image_side),
                "image_width", J(f->image_width), "channels", J(f->channels), "preset",
                J(f->preset), "classes", J(f->classes), "inputs", inputs_of_model(model, f),
                "outputs", outputs_of_model(model, f), "gives_features", J((bool)f->gives_features),
                "activation", J(f->activation), "preprocessing", preprocessing_json(p), "notices",
                heard, "regions", regions_json(model), "sites", list, NULL));
}

static int run(const char *const arguments[])
{
    const char *directory = arguments[0];
    int code = EXIT_OK;
    grail_model *model = NULL;
    grail_site_list *sites = NULL;
    grail_model_facts facts = {0};
    const grail_gqa_mode mode = gqa != NULL && strcmp(gqa, "query-per-group") == 0
                                    ? GRAIL_GQA_QUERY_PER_GROUP
                                    : GRAIL_GQA_KV_GROUPS;
    grail_status status = shared_options_open_model(directory, &model);
    if (status == GRAIL_OK) {
        status = grail_model_describe(model, &facts);
    }
    if (status == GRAIL_OK) {
        status = grail_model_sites(model, mode, &sites);
    }
    if (status != GRAIL_OK) {
        code = print_failure(status);
    } else if (shared_options_check_kind(directory, facts.reads_images != 0, "the modes of --gqa",
                                         "") != EXIT_OK) {
        code = EXIT_USAGE;
    } else if (asked.as_json) {
        code = print_as_json(model, &facts, sites);
    } else {
        print_notices(directory, model, true);
        status = print_table(model, &facts, sites);
        print_regions(model);
        code = status == GRAIL_OK ? EXIT_OK : print_failure(status);
    }
    grail_site_list_free(sites);
    grail_model_close(model);
    return code;
}

const command command_inspect = {
    .name = "inspect",
    .arguments = "MODEL",
    .argument_count = 1,
    .summary = "list the sites of a model, its parameters, and its cost per token or image",
    .examples = WORDS("grail inspect demo/model", "grail inspect demo/vision/cnn.pth"),
    .options = table,
    .run = run,
};
