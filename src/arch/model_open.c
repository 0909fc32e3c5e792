/* Opens a model: reads or recognises its configuration, builds the graph from it, and binds every
 * parameter of the graph to a tensor of the checkpoint. */
#include "arch/model.h"

#include "arch/gguf_family.h"
#include "arch/model_config.h"
#include "arch/model_preparation.h"
#include "arch/network_prefix.h"
#include "arch/onnx_folds.h"
#include "arch/outside_tensors.h"
#include "arch/refusals.h"
#include "arch/text_tower.h"
#include "base/file.h"
#include "base/name_list.h"
#include "base/names.h"
#include "base/option_values.h"
#include "base/options.h"
#include "format/weights/checkpoint_locate.h"
#include "graph/operators.h"
#include "tensor/packed.h"

#include <stdio.h>
#include <string.h>

/* A model that is being opened. Messages name what requires the tensors. */
typedef struct opening {
    grail_model *m;
    char *source;       /* path of the configuration, or of the weights if there is none */
    char *asker;        /* "config.json", "grail.json" or "a resnet network" */
    bool is_recognised; /* from the tensors */
    int *first_part;    /* [checkpoint_count]: the first parameter of each tensor, or GRAPH_NONE, */
    int *next_part;     /* [parameter_count] and the one after each parameter */
    char *directory;    /* whose files belong to the weights; NULL if there is none */
    const char *preset; /* who names a preset: the configuration file or a setting; static */
    int64_t head_copy;  /* number of a tensor with the bytes of the embeddings; -1: there is none */
} opening;

static grail_status read_config(opening *o)
{
    model_config config = {0};
    CHECK(model_config_read(o->m->checkpoint, o->m->path, &config));
    o->m->config_name = config.name;
    o->m->config = config.document;
    o->source = config.path;
    return config.document == NULL ? GRAIL_OK : memory_copy_string(&o->asker, config.name);
}

/* A file whose keys or tensors do not make one network is of no use as it is. */
static grail_status explain_gguf(const opening *o, const grail_model_options *options,
                                 grail_status status)
{
    const bool changed = options != NULL && options->setting_count > 0;
    if (checkpoint_metadata(o->m->checkpoint) != NULL && !changed &&
        (status == GRAIL_ERROR_FORMAT || status == GRAIL_ERROR_SHAPE)) {
        error_append("; convert the network again with a current converter");
    }
    return status;
}

/* Reads the language model of a larger network as one by itself. */
static grail_status take_text_tower(opening *o)
{
    grail_model *m = o->m;
    json_t *text = NULL;
    char *source = NULL;
    CHECK(text_tower_config(m->config, &text));
    if (text == NULL) {
        return GRAIL_OK;
    }
    json_decref(m->config);
    m->config = text;
    m->is_text_tower = true;
    CHECK(memory_format(&source, "%s: \"text_config\"", o->source));
    memory_free(o->source);
    o->source = source;
    return GRAIL_OK;
}

/* Recognises the family by the tensors. They supply what the configuration does not state. */
static grail_status recognise(opening *o)
{
    grail_status status = GRAIL_OK;
    grail_model *m = o->m;
    json_t *recognised = NULL;
    const surroundings around = {.path = m->path,
                                 .directory = o->directory,
                                 .source = o->source,
                                 .config = m->config,
                                 .weights = m->checkpoint};
    TRY(architecture_recognise(m->checkpoint, &m->architecture, &recognised));
    o->is_recognised = true;
    if (m->architecture->complete != NULL) {
        TRY(m->architecture->complete(&around, recognised, m->activation_notice));
    }
    if (json_object_get(m->config, "activation") != NULL) {
        m->activation_notice[0] = 0;
    }
    if (m->config == NULL) {
        m->config = recognised;
        recognised = NULL;
    } else if (json_object_update_missing(m->config, recognised) != 0) {
        FAIL(GRAIL_ERROR_MEMORY, "out of memory while reading %s", o->source);
    }
    if (o->source == NULL) {
        TRY(memory_copy_string(&o->source, m->path));
    }
    memory_free(o->asker);
    o->asker = NULL;
    TRY(memory_format(&o->asker, "a %s network", m->architecture->name));
out:
    json_decref(recognised);
    return status;
}

/* Takes the reference of `value`, even on failure. */
static grail_status put_size(json_t *config, const char *name, json_t *value)
{
    grail_status status = GRAIL_OK;
    json_t *sizes = json_object_get(config, "sizes");
    if (!json_is_object(sizes)) {
        sizes = json_object();
        TRY(json_put(config, "sizes", sizes));
    }
    return json_put_name(sizes, name, value);
out:
    json_decref(value);
    return status;
}

/* The value is JSON if it parses as JSON ("64", "true"), otherwise a string ("quick_gelu"). */
static grail_status apply_setting(opening *o, const char *setting)
{
    grail_status status = GRAIL_OK;
    char *key = NULL;
    json_error_t error = {0};
    const architecture *a = o->m->architecture;
    const char *equals = strchr(setting, '=');
    int known = 0;
    if (equals == NULL || equals == setting) {
        FAIL(GRAIL_ERROR_ARGUMENT, "setting '%s' is not of the form key=value", setting);
    }
    TRY(memory_format(&key, "%.*s", (int)(equals - setting), setting));
    while (a->settings[known] != NULL && strcmp(a->settings[known], key) != 0) {
        known++;
    }
    if (a->settings[known] == NULL && !a->settings_name_sizes) {
        status = error_set(GRAIL_ERROR_ARGUMENT,
                           "a %s network has no setting '%s'; known settings:", a->name, key);
        error_append_known(NULL, a->settings);
        goto out;
    }
    json_t *value = json_loads(equals + 1, JSON_DECODE_ANY | JSON_REJECT_DUPLICATES, &error);
    if (value == NULL && json_error_code(&error) == json_error_invalid_utf8) {
        FAIL(GRAIL_ERROR_ARGUMENT, "setting '%s' is not UTF-8 text", setting);
    }
    value = value == NULL ? json_text(equals + 1) : value;
    if (a->settings[known] == NULL) {
        TRY(put_size(o->m->config, key, value));
        goto out;
    }
    TRY(json_put(o->m->config, key, value));
    if (strcmp(key, "activation") == 0) {
        o->m->activation_notice[0] = 0;
    } else if (strcmp(key, "preset") == 0) {
        o->preset = PREPARATION_BY_SETTING;
    }
out:
    memory_free(key);
    return status;
}

static grail_status bind_parameter(opening *o, int index)
{
    grail_model *m = o->m;
    const graph_parameter *wanted = &m->graph->parameters[index];
    const stored_matrix stored = graph_stored(wanted);
    const int64_t place = checkpoint_place_of(m->checkpoint, wanted->tensor);
    const tensor_view *found = checkpoint_at(m->checkpoint, place);
    if (found == NULL) {
        return error_set(GRAIL_ERROR_FORMAT, "%s: tensor '%s' is missing, but %s needs it", m->path,
                         wanted->tensor, o->asker);
    }
    if (!storage_fits(&stored, found)) {
        char expected[64];
        char shape[64];
        const int64_t turned[2] = {wanted->shape[1], wanted->shape[0]};
        const bool turns = wanted->map.transposed;
        error_set(
            GRAIL_ERROR_SHAPE, "%s: tensor '%s' has shape %s, but %s needs shape %s", m->path,
            wanted->tensor, shape_text(found->rank, found->shape, shape, sizeof shape), o->asker,
            shape_text(wanted->rank, turns ? turned : wanted->shape, expected, sizeof expected));
        if (!storage_axis_is_whole(&wanted->map.rows)) {
            error_append(" from %s %lld on", turns ? "column" : "row",
                         (long long)wanted->map.rows.first);
        }
        return GRAIL_ERROR_SHAPE;
    }
    if (!dtype_is_readable(found->dtype) && !tensor_is_packed(found)) {
        return error_set(
            GRAIL_ERROR_UNSUPPORTED,
            "%s: tensor '%s' has dtype %s; the supported dtypes are F64, F32, F16 and BF16 (%s)",
            m->path, found->name, grail_dtype_name(found->dtype),
            found->dtype == GRAIL_DTYPE_C64
                ? "networks of complex numbers cannot be narrowed"
                : "a quantised checkpoint cannot be narrowed; use the checkpoint from before "
                  "quantisation");
    }
    m->tensors[index] = found;
    o->next_part[index] = o->first_part[place];
    o->first_part[place] = index;
    return GRAIL_OK;
}

/* The parameters of a tensor cover it, where it is more, or less, than one of them as it is. */
static grail_status check_cover(const opening *o, int64_t place)
{
    grail_status status = GRAIL_OK;
    const graph *g = o->m->graph;
    stored_matrix *parts = NULL;
    const stored_matrix **pointers = NULL;
    int count = 0;
    bool plain = true;
    for (int p = o->first_part[place]; p != GRAPH_NONE; p = o->next_part[p]) {
        plain = plain && storage_is_plain(&g->parameters[p].map);
        count++;
    }
    if (plain) {
        return GRAIL_OK;
    }
    int left = count;
    TRY(memory_new(&parts, (size_t)count, sizeof parts[0]));
    TRY(memory_new(&pointers, (size_t)count, sizeof pointers[0]));
    for (int p = o->first_part[place]; p != GRAPH_NONE; p = o->next_part[p]) {
        left--; /* the list has the last one first */
        parts[left] = graph_stored(&g->parameters[p]);
        pointers[left] = &parts[left];
    }
    status = storage_check_cover(count, pointers, checkpoint_at(o->m->checkpoint, place));
    if (status == GRAIL_ERROR_SHAPE) {
        error_prefix("%s", o->m->path);
        error_append(" of the network that %s describes", o->asker);
    }
out:
    memory_free(pointers);
    memory_free(parts);
    return status;
}

/* Ignoring a weight would silently change the answer, so a weight that the graph does not read is
 * refused. */
static grail_status refuse_outside(const opening *o, int64_t i, int64_t layer)
{
    const grail_model *m = o->m;
    const char *name = checkpoint_at(m->checkpoint, i)->name;
    const char *prefix = checkpoint_prefix(m->checkpoint);
    const char *describes = o->is_recognised ? "its other tensors describe" : o->asker;
    const char *verb = o->is_recognised ? "" : " describes";
    if (layer >= 0) {
        return error_set(
            GRAIL_ERROR_UNSUPPORTED,
            "%s: tensor '%s' is of layer %lld, but the last one that %s%s is layer %d; "
            "correct the number of layers there, or take the tensors of further "
            "layers out of the file",
            m->path, name, (long long)layer, describes, verb, m->graph->block_count - 1);
    }
    const grail_status status = error_set(GRAIL_ERROR_UNSUPPORTED,
                                          "%s: tensor '%s' is not part of the %s network that %s%s",
                                          m->path, name, m->architecture->name, describes, verb);
    if (!checkpoint_is_inside(m->checkpoint, i)) {
        error_append(", whose tensors begin with '%s'; if the network works without it, save the "
                     "tensors of the network alone",
                     prefix);
    } else if (name_ends_with(name, ".bias")) {
        error_append(" (does it switch a bias off, or is this another architecture?)");
    } else {
        error_append("; where that is a counter or a buffer, take it out of the file; where it is "
                     "a weight, the network is of another architecture");
    }
    return status;
}

/* What is not read of one kind. */
typedef struct unread {
    const char *first; /* name of the first tensor */
    int64_t count;
} unread;

typedef struct unread_tensors {
    unread parts[OUTSIDE_PARTS];
    unread of_larger; /* network, around the language model */
} unread_tensors;

static void count(unread *of, const tensor_view *tensor)
{
    of->first = of->count++ == 0 ? tensor->name : of->first;
}

static const char *base_of(const opening *o)
{
    const architecture *a = o->m->architecture;
    return a->base == NULL ? "" : a->base(a);
}

static grail_status count_outside(opening *o, int64_t i, unread_tensors *all)
{
    grail_model *m = o->m;
    const char *name = checkpoint_own_name(m->checkpoint, i);
    const tensor_view *tensor = checkpoint_at(m->checkpoint, i);
    const int64_t layer = surplus_layer(m->graph, base_of(o), name);
    int64_t elements = 0;
    if (m->is_text_tower && !checkpoint_is_inside(m->checkpoint, i)) {
        if (i != o->head_copy) {
            count(&all->of_larger, tensor);
        }
        m->left_out[i] = true;
        return GRAIL_OK;
    }
    outside_part part = i == o->head_copy                          ? OUTSIDE_BUFFER
                        : layer < 0                                ? outside_part_of(name, tensor)
                        : surplus_layer_predicts(m->checkpoint, i) ? OUTSIDE_PREDICTIONS
                                                                   : OUTSIDE_REFUSED;
    if (part == OUTSIDE_REFUSED && m->architecture->outside != NULL) {
        part = m->architecture->outside(name);
    }
    if (part == OUTSIDE_REFUSED) {
        return refuse_outside(o, i, layer);
    }
    count(&all->parts[part], tensor);
    m->left_out[i] = outside_kinds[part].is_left_out;
    if (part == OUTSIDE_WEIGHTS && shape_elements(tensor->rank, tensor->shape, &elements)) {
        m->outside_parameters += elements;
    }
    m->outside_bytes += m->left_out[i] ? 0 : (int64_t)tensor->bytes;
    return GRAIL_OK;
}

/* What gives features is known to have heads behind them, or other towers beside them. */
static grail_status note_all(grail_model *m, const unread_tensors *all)
{
    const bool is_language_model = m->graph->vocabulary > 0 && !graph_gives_features(m->graph);
    const unread *others = &all->of_larger;
    char more[320] = "";
    if (others->count > 0) {
        snprintf(more, sizeof more, "; the other %lld tensors, such as '%.200s', are not read",
                 (long long)others->count, others->first);
    }
    if (m->is_text_tower) {
        CHECK(model_add_notice(m,
                               "its language model is read as a %s by itself%s, and results are "
                               "the language model alone",
                               m->architecture->name, more));
    }
    for (int part = 0; part < OUTSIDE_PARTS; part++) {
        const outside_kind *kind = &outside_kinds[part];
        const unread *of = &all->parts[part];
        if (of->count == 0 || kind->what == NULL ||
            (part == OUTSIDE_WEIGHTS && !is_language_model)) {
            continue;
        }
        snprintf(more, sizeof more, " and %lld more", (long long)of->count - 1);
        CHECK(model_add_notice(m, "not read: tensor '%.200s'%s (%s); results %s", of->first,
                               of->count > 1 ? more : "", kind->what,
                               kind->is_left_out ? "lack them" : "have them as they are"));
    }
    return GRAIL_OK;
}

static grail_status bind_parameters(opening *o)
{
    grail_model *m = o->m;
    const int count = m->graph->parameter_count;
    const int64_t tensors = checkpoint_count(m->checkpoint);
    unread_tensors all = {0};
    CHECK(memory_new(&m->tensors, (size_t)count, sizeof m->tensors[0]));
    CHECK(memory_new(&o->first_part, (size_t)tensors, sizeof o->first_part[0]));
    CHECK(memory_new(&o->next_part, (size_t)count, sizeof o->next_part[0]));
    for (int64_t i = 0; i < tensors; i++) {
        o->first_part[i] = GRAPH_NONE;
    }
    for (int p = 0; p < count; p++) {
        CHECK(bind_parameter(o, p));
    }
    for (int64_t i = 0; i < tensors; i++) {
        CHECK(check_cover(o, i));
    }
    CHECK(memory_new(&m->left_out, (size_t)tensors, sizeof m->left_out[0]));
    for (int64_t i = 0; i < tensors; i++) {
        if (o->first_part[i] == GRAPH_NONE) {
            CHECK(count_outside(o, i, &all));
        }
    }
    return note_all(m, &all);
}

/* Finds the family where the configuration does not state it, builds its graph - again with a head
 * of its own where the checkpoint has one -, and binds it. */
static grail_status fit_network(opening *o, const grail_model_options *options)
{
    grail_model *m = o->m;
    recognition found = {0};
    bool differs = false;
    if (m->architecture == NULL) {
        CHECK(recognise(o));
    } else {
        CHECK(network_prefix_of_family(m->architecture, m->checkpoint, &found));
    }
    if (m->is_text_tower) {
        CHECK(text_tower_tie(m->architecture, m->checkpoint, m->config));
    }
    for (int i = 0; options != NULL && i < options->setting_count; i++) {
        CHECK(option_given("settings", "setting", options->settings[i]));
        CHECK(apply_setting(o, options->settings[i]));
    }
    const architecture *a = m->architecture;
    CHECK(a->build(a, o->source, m->config, m->checkpoint, &m->graph));
    if (a->base != NULL && checkpoint_metadata(m->checkpoint) == NULL) {
        CHECK(network_prefix_of_graph(m->graph, base_of(o), m->checkpoint));
    }
    CHECK(tied_head_compare(m, o->source, &o->head_copy, &differs));
    if (differs) {
        graph_free(m->graph);
        m->graph = NULL;
        CHECK(a->build(a, o->source, m->config, m->checkpoint, &m->graph));
    }
    m->context = a->context == NULL ? 0 : a->context(a, m->config);
    return bind_parameters(o);
}

/* What the tensors of an image network show tells more than the first one that does not fit. Most
 * often tensors are missing because a class without the last layer, or with another one, saved the
 * network. */
static grail_status explain(const grail_model *m, grail_status status)
{
    const bool misfits = status == GRAIL_ERROR_FORMAT || status == GRAIL_ERROR_SHAPE ||
                         status == GRAIL_ERROR_UNSUPPORTED;
    const bool has_nodes = m->checkpoint != NULL && checkpoint_onnx(m->checkpoint) != NULL;
    if (misfits && !has_nodes && (m->architecture == NULL || m->architecture->preset != NULL)) {
        status = foreign_parts_explain(m->checkpoint, status);
    }
    const char *ending = m->architecture == NULL ? NULL : m->architecture->class_ending;
    const json_t *saved_by = json_array_get(json_object_get(m->config, "architectures"), 0);
    const char *class = json_string_value(saved_by);
    if (status == GRAIL_ERROR_FORMAT && ending != NULL && class != NULL &&
        !name_ends_with(class, ending)) {
        error_append("; the network was saved by the class %s, which has another last layer than "
                     "grail reads, or none: save it by its class that ends in %s",
                     class, ending);
    }
    return status;
}

/* Says where the network lies, unless all of its class lie there. */
static grail_status note_place(const opening *o)
{
    grail_model *m = o->m;
    const char *prefix = checkpoint_prefix(m->checkpoint);
    const char *rival = checkpoint_rival(m->checkpoint, 0);
    const char *usual = base_of(o);
    const size_t length = strlen(m->architecture->name);
    const bool is_of_class = !o->is_recognised &&
                             strncmp(prefix, m->architecture->name, length) == 0 &&
                             strcmp(prefix + length, ".") == 0;
    if (rival[0] != 0) {
        CHECK(model_add_notice(m,
                               "its tensors are those under '%.100s'; those under '%.100s' are "
                               "not read, and results lack them",
                               checkpoint_wrapper(m->checkpoint, 0), rival));
    }
    if (prefix[0] == 0 || strcmp(prefix, usual) == 0 || is_of_class || m->is_text_tower) {
        return GRAIL_OK;
    }
    m->has_foreign_names = model_names_its_class(m);
    return model_add_notice(
        m, "its network is the one whose tensors begin with '%.200s'; results keep the names",
        prefix);
}

/* A value that two regions read counts once. */
static grail_status note_regions(grail_model *m)
{
    grail_status status = GRAIL_OK;
    const graph *g = m->graph;
    bool *counted = NULL; /* of values */
    int64_t channels = 0;
    int count = 0;
    TRY(memory_new(&counted, (size_t)g->value_count, sizeof counted[0]));
    counted[g->input] = true;
    for (int i = 0; i < g->node_count; i++) {
        const node *n = &g->nodes[i];
        for (int k = 0; n->kind == NODE_OPAQUE && k < n->input_count; k++) {
            channels += counted[n->inputs[k]] ? 0 : region_input_width(n->region, k);
            counted[n->inputs[k]] = true;
        }
        if (n->kind == NODE_OPAQUE) {
            channels += region_width(n->region);
            counted[n->output] = true;
            count++;
        }
    }
    if (count > 0) {
        TRY(model_add_notice(m,
                             "%d region%s of nodes that grail has no rows for %s left to ONNX "
                             "Runtime; %lld channels that are read or made there stay (the first "
                             "begins with %.200s)",
                             count, count == 1 ? "" : "s", count == 1 ? "is" : "are",
                             (long long)channels, grail_model_region_at(m, 0).node));
    }
out:
    memory_free(counted);
    return status;
}

/* Why maps keep all channels, but where any network does: at its ends and norms. */
static grail_status note_pinned(grail_model *m)
{
    static const char *const causes[PINS] = {
        [PINNED_BY_REGION] = "go through nodes left to ONNX Runtime",
        [PINNED_BY_SHUFFLE] = "change places with others (a channel shuffle)",
        [PINNED_BY_TABLE] = "are of heads whose scores have biases that the file computes",
        [PINNED_IN_PARTS] = "are parted by groups or heads that do not go together",
        [PINNED_BY_NUMBERS] = "are counted by numbers that the file computes"};
    char text[1024] = "";
    const graph *g = m->graph;
    int maps = 0;
    int all = 0;
    pinned_maps pinned[PINS];
    CHECK(sites_pinned(g, &maps, pinned));
    for (int cause = PINNED_BY_REGION; cause < PINS; cause++) {
        const pinned_maps *p = &pinned[cause];
        const node *at = p->at == GRAPH_NONE ? NULL : &g->nodes[p->at];
        const size_t length = strlen(text);
        all += p->count;
        const char *name = at == NULL                 ? NULL
                           : at->kind == NODE_OPAQUE  ? region_name(at->region)
                           : at->weight != GRAPH_NONE ? g->parameters[at->weight].name
                                                      : NULL;
        if (p->count > 0) {
            snprintf(text + length, sizeof text - length, "%s %d %s ('%.100s' first%s%.150s)",
                     length == 0 ? "" : ";", p->count, causes[cause],
                     g->parameters[g->nodes[p->first].weight].name, name == NULL ? "" : ", at ",
                     name == NULL ? "" : name);
        }
    }
    return all == 0 ? GRAIL_OK
                    : model_add_notice(m, "channels that %d of %d maps make stay in every cut:%s",
                                       all, maps, text);
}

static grail_status note_outputs(grail_model *m)
{
    for (int i = 0; i < m->graph->output_count; i++) {
        const graph_output *o = &m->graph->outputs[i];
        if (o->stands_for != NULL) {
            CHECK(
                model_add_notice(m,
                                 "nodes that grail has no rows for make '%s' of '%.100s'; results "
                                 "keep them, and what is compared is '%.100s'",
                                 o->stands_for, o->name, o->name));
        }
    }
    return GRAIL_OK;
}

static grail_status note_useless(grail_model *m, int64_t nodes)
{
    return nodes == 0
               ? GRAIL_OK
               : model_add_notice(m,
                                  "%lld node%s of the file make%s nothing that an output "
                                  "needs; a narrowed file is without them",
                                  (long long)nodes, nodes == 1 ? "" : "s", nodes == 1 ? "s" : "");
}

static grail_status note_softmax(grail_model *m)
{
    return m->graph->before_softmax
               ? model_add_notice(m, "its last node is a Softmax, which results keep; logits, and "
                                     "what is compared, are what that reads")
               : GRAIL_OK;
}

/* A model in memory has its checkpoint already. */
static grail_status open_network(opening *o, const grail_model_options *options)
{
    grail_model *m = o->m;
    bool is_gguf = false;
    bool is_onnx = false;
    int64_t useless = 0;
    CHECK(read_config(o));
    if (m->checkpoint == NULL) {
        CHECK(checkpoint_is_gguf(m->path, &is_gguf));
        CHECK(checkpoint_is_onnx(m->path, &is_onnx));
        CHECK(is_gguf ? checkpoint_open(m->path, &m->checkpoint) : GRAIL_OK);
        CHECK(model_config_directory(m->path, &o->directory));
    }
    if (is_gguf) { /* whose keys are its configuration */
        CHECK(explain_gguf(o, NULL, gguf_read_config(m->checkpoint, &m->config)));
        CHECK(memory_copy_string(&o->source, m->path));
        CHECK(memory_copy_string(&o->asker, "the file's metadata"));
    } else if (is_onnx && m->config == NULL) { /* whose nodes are */
        m->config = json_object();
        CHECK(json_put(m->config, "model_type", json_text("onnx")));
        CHECK(memory_copy_string(&o->source, m->path));
        CHECK(memory_copy_string(&o->asker, "the file's nodes"));
    }
    if (json_object_get(m->config, "preset") != NULL) {
        o->preset = m->config_name;
    }
    /* timm's config.json names a function of timm and has no model_type; then the tensors show the
     * family. */
    if (m->config != NULL && (json_object_get(m->config, "model_type") != NULL ||
                              !json_is_string(json_object_get(m->config, "architecture")))) {
        CHECK(take_text_tower(o));
        CHECK(architecture_find(o->source, m->config, &m->architecture));
    }
    CHECK(read_quantisation(o->source, m->config));
    if (m->checkpoint == NULL) {
        CHECK(checkpoint_open(m->path, &m->checkpoint));
    }
    CHECK(onnx_fold_nodes(m->checkpoint, &useless));
    CHECK(refuse_stored_form(m->checkpoint));
    CHECK(explain_gguf(o, options, explain(m, fit_network(o, options))));
    CHECK(note_place(o));
    CHECK(note_useless(m, useless));
    CHECK(note_regions(m));
    CHECK(note_outputs(m));
    CHECK(note_softmax(m));
    CHECK(note_pinned(m));
    m->context = m->graph->context > 0 ? m->graph->context : m->context;
    if (m->graph->input_kind == INPUT_IMAGES && m->graph->input_count == 0) {
        CHECK(model_preparation_find(m, o->directory, o->is_recognised, o->preset));
    }
    return checkpoint_load(m->checkpoint);
}

/* The output of an unfinished run has all tensor names but not all weights. Hugging Face's hub
 * keeps of a network refs, blobs and snapshots, which are the models. */
static grail_status refuse_other_directory(const char *path)
{
    grail_status status = GRAIL_OK;
    char *state = NULL;
    char *snapshots = NULL;
    char *config = NULL;
    name_list names = {0};
    TRY(path_join(&state, path, "grail-state.jsonl"));
    TRY(path_join(&snapshots, path, "snapshots"));
    TRY(path_join(&config, path, MODEL_CONFIG_NAME));
    if (file_is_directory(path) && file_exists(state)) {
        FAIL(GRAIL_ERROR_FORMAT,
             "'%s' holds an interrupted run, not a model; resume that run, or delete it", path);
    }
    if (!file_is_directory(snapshots) || file_exists(config)) {
        goto out;
    }
    TRY(name_list_read(snapshots, NULL, &names));
    if (names.count > 0) {
        FAIL(GRAIL_ERROR_ARGUMENT,
             "'%s' is a folder of Hugging Face's cache, whose snapshots are the models; give %s "
             "'%s/%s'",
             path, names.count == 1 ? "its snapshot" : "one of its snapshots, such as", snapshots,
             names.names[0]);
    }
out:
    name_list_fini(&names);
    memory_free(config);
    memory_free(snapshots);
    memory_free(state);
    return status;
}

/* OWNER/NAME is how the networks of Hugging Face's hub are called; also a path whose directory
 * exists looks so. */
static grail_status refuse_missing(const char *path)
{
    static const char letters[] =
        "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_.-";
    grail_status status = GRAIL_OK;
    char *owner = NULL;
    const size_t length = strspn(path, letters);
    const char *name = path[length] == '/' ? path + length + 1 : path;
    const size_t left = strspn(name, letters);
    const bool is_of_hub = path[0] != '.' && length > 0 && name != path && left > 0;
    TRY(memory_format(&owner, "%.*s", (int)(name - path), path));
    status =
        error_set(GRAIL_ERROR_IO, "'%s' is neither a model directory nor a weights file", path);
    if (is_of_hub && name[left] == 0 && !file_is_directory(owner)) {
        error_append(
            "; grail reads nothing from the internet, but 'hf download %s --local-dir %s' "
            "fetches a network of that name from Hugging Face's hub, for grail to read '%s'",
            path, name, name);
    }
out:
    memory_free(owner);
    return status;
}

static grail_status check_settings(const grail_model_options *options)
{
    if (options == NULL) {
        return GRAIL_OK;
    }
    CHECK(OPTION_ROOM_OF(grail_model_options, options));
    CHECK(option_integer("setting_count", "the number of settings", options->setting_count, 0));
    return options->setting_count > 0
               ? option_given("settings", "list of settings", options->settings)
               : GRAIL_OK;
}

/* A model in memory, or (NULL) that at `path`, as messages call either. */
static grail_status open_model(const char *path, const grail_memory_model *memory,
                               const grail_model_options *options, grail_model **out)
{
    static const char *const type_names[] = {"f32", "f16", "bf16", NULL};
    static const grail_dtype types[] = {GRAIL_DTYPE_F32, GRAIL_DTYPE_F16, GRAIL_DTYPE_BF16};
    grail_status status = GRAIL_OK;
    opening o = {0};
    int type = 0;
    TRY(memory_new(&o.m, 1, sizeof *o.m));
    o.m->written_blocks = GRAIL_DTYPE_COUNT;
    TRY(memory_copy_string(&o.m->path, path));
    if (options != NULL && options->type != NULL) {
        TRY(error_about(option_find_word("type", options->type, type_names, &type), "type"));
        o.m->written_blocks = types[type];
    }
    if (memory != NULL) {
        TRY(checkpoint_open_memory(memory, &o.m->checkpoint));
    }
    TRY(open_network(&o, options));
    *out = o.m;
    o.m = NULL;
out:
    memory_free(o.source);
    memory_free(o.asker);
    memory_free(o.first_part);
    memory_free(o.next_part);
    memory_free(o.directory);
    grail_model_close(o.m);
    return status;
}

grail_status grail_model_open_with(const char *path, const grail_model_options *options,
                                   grail_model **out)
{
    CHECK(option_given("model", "model", path));
    CHECK(check_settings(options));
    if (!file_exists(path)) {
        return refuse_missing(path);
    }
    CHECK(refuse_other_directory(path));
    return open_model(path, NULL, options, out);
}

grail_status grail_model_open_memory(const grail_memory_model *memory,
                                     const grail_model_options *options, grail_model **out)
{
    CHECK(option_given("memory", "model in memory", memory));
    CHECK(check_settings(options));
    return open_model(memory_model_name(memory), memory, options, out);
}

grail_status grail_model_open(const char *path, grail_model **out)
{
    const grail_model_options none = {0};
    return grail_model_open_with(path, &none, out);
}

void grail_model_close(grail_model *model)
{
    if (model == NULL) {
        return;
    }
    checkpoint_close(model->checkpoint);
    json_decref(model->config);
    model_preparation_free(model->preparation);
    graph_free(model->graph);
    memory_free(model->tensors);
    memory_free(model->left_out);
    for (int i = 0; i < model->notice_count; i++) {
        memory_free(model->notices[i]);
    }
    memory_free(model->notices);
    memory_free(model->path);
    memory_free(model);
}
