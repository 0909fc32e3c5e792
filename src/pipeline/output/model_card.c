#include "pipeline/output/model_card.h"

#include "arch/model_config.h"
#include "base/escape_append.h"
#include "base/json.h"
#include "base/memory.h"
#include "graph/operators.h"
#include "pipeline/request/calibration_record.h"

#include <grail/compress.h>

#include <stdlib.h>
#include <string.h>

/* -- text from outside ------------------------------------------------------------------------- */

/* One line, between more backticks than follow each other in it. */
static grail_status put_code(buffer *out, const char *text)
{
    size_t longest = 0;
    for (const char *at = text; *at != 0;) {
        const size_t run = strspn(at, "`");
        longest = run > longest ? run : longest;
        at += run > 0 ? run : 1;
    }
    for (size_t i = 0; i <= longest; i++) {
        CHECK(buffer_append_string(out, "`"));
    }
    CHECK(buffer_append_string(out, longest > 0 ? " " : ""));
    CHECK(escape_append(GRAIL_ESCAPE_LINE, text, strlen(text), out));
    CHECK(buffer_append_string(out, longest > 0 ? " " : ""));
    for (size_t i = 0; i <= longest; i++) {
        CHECK(buffer_append_string(out, "`"));
    }
    return GRAIL_OK;
}

static const char *text_of(const json_t *object, const char *key)
{
    const char *text = json_string_value(json_object_get(object, key));
    return text == NULL ? "" : text;
}

/* -- the front matter -------------------------------------------------------------------------- */

/* Whether a text has the form of a repository's name, "owner/model". */
static bool is_repository(const char *text, size_t length)
{
    static const char allowed[] =
        "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_./";
    const char *slash = memchr(text, '/', length);
    return slash != NULL && slash != text && slash + 1 < text + length && text[0] != '.' &&
           slash[1] != '.' && memchr(slash + 1, '/', (size_t)(text + length - slash - 1)) == NULL &&
           strspn(text, allowed) >= length;
}

/* The repository of a directory in a Hugging Face cache, ".../models--OWNER--NAME/snapshots/...".
 */
static grail_status repository_in_cache(const char *directory, char **out)
{
    grail_status status = GRAIL_OK;
    static const char begin[] = "/models--";
    char *real = realpath(directory, NULL);
    const char *owner = real == NULL ? NULL : strstr(real, begin);
    const char *end = owner == NULL ? NULL : strstr(owner, "/snapshots/");
    owner = end == NULL ? NULL : owner + sizeof begin - 1;
    const char *name = owner == NULL ? NULL : strstr(owner, "--");
    if (name != NULL && name < end) {
        TRY(memory_format(out, "%.*s/%.*s", (int)(name - owner), owner, (int)(end - name - 2),
                          name + 2));
    }
out:
    free(real); /* realpath's own allocator */
    return status;
}

/* *out stays NULL where neither the place nor the configuration says where the model is from. */
static grail_status find_base_model(const grail_model *base, char **out)
{
    const char *named = text_of(base->config, "_name_or_path");
    const char *directory = checkpoint_directory(base->checkpoint);
    CHECK(directory == NULL ? GRAIL_OK : repository_in_cache(directory, out));
    if (*out == NULL) {
        CHECK(memory_copy_string(out, named));
    }
    if (!is_repository(*out, strlen(*out))) {
        memory_free(*out);
        *out = NULL;
    }
    return GRAIL_OK;
}

static bool opens_in(const json_t *report, const char *loader)
{
    size_t i = 0;
    const json_t *one = NULL;
    json_array_foreach (json_object_get(report, "loaders"), i, one) {
        if (strcmp(text_of(one, "loader"), loader) == 0) {
            return json_is_true(json_object_get(one, "loads"));
        }
    }
    return false;
}

static bool is_healed(const json_t *report)
{
    return json_array_size(json_object_get(report, "healed")) > 0;
}

/* Whether the result is a GGUF file that was made from a directory. */
static bool is_file_of_directory(const json_t *report)
{
    const json_t *q = json_object_get(report, "quantized");
    return q != NULL && json_object_get(q, "bits") == NULL;
}

static grail_status put_front_matter(const json_t *report, const grail_model *base, buffer *out)
{
    grail_status status = GRAIL_OK;
    char *repository = NULL;
    const bool is_library = base->config_name != NULL &&
                            strcmp(base->config_name, MODEL_CONFIG_NAME) == 0 &&
                            !is_file_of_directory(report) && opens_in(report, "transformers");
    TRY(find_base_model(base, &repository));
    TRY(buffer_append_string(out, "---\n"));
    if (repository != NULL) {
        TRY(buffer_format(out, "base_model: %s\n", repository));
    }
    TRY(buffer_append_string(out, is_library ? "library_name: transformers\n" : ""));
    TRY(buffer_format(out, "tags:\n- grail\n- pruning\n- %s\n%s---\n\n",
                      text_of(json_object_get(report, "dense"), "architecture"),
                      is_healed(report) ? "- distillation\n" : ""));
out:
    memory_free(repository);
    return status;
}

/* -- what was cut ------------------------------------------------------------------------------ */

/* Sites of one kind together. Errors are means over the sites where they were measured. */
typedef struct kind_summary {
    const char *kind, *selector;
    int sites, measured;
    bool same_selector;
    json_int_t units, kept, width, narrow;
    double before, after;
} kind_summary;

static void add_site(const json_t *one, kind_summary *k)
{
    const json_t *before = json_object_get(one, "held_error_before");
    const json_t *after = json_object_get(one, "held_error_after");
    k->same_selector =
        k->sites == 0 || (k->same_selector && strcmp(k->selector, text_of(one, "selector")) == 0);
    k->selector = text_of(one, "selector");
    k->sites++;
    k->units += json_integer_value(json_object_get(one, "units"));
    k->kept += json_integer_value(json_object_get(one, "kept"));
    k->width += json_integer_value(json_object_get(one, "width"));
    k->narrow += json_integer_value(json_object_get(one, "narrow_width"));
    if (json_is_number(before) && json_is_number(after)) {
        k->measured++;
        k->before += json_number_value(before);
        k->after += json_number_value(after);
    }
}

static kind_summary summarise(const json_t *sites, const char *kind)
{
    kind_summary k = {.kind = kind, .selector = ""};
    size_t i = 0;
    const json_t *one = NULL;
    json_array_foreach (sites, i, one) {
        if (strcmp(text_of(one, "kind"), kind) == 0) {
            add_site(one, &k);
        }
    }
    return k;
}

static grail_status put_kind(const kind_summary *k, buffer *out)
{
    CHECK(buffer_format(out, "| %s | %d | %lld of %lld | %lld of %lld | %s |", k->kind, k->sites,
                        (long long)k->kept, (long long)k->units, (long long)k->narrow,
                        (long long)k->width, k->same_selector ? k->selector : "several"));
    if (k->measured > 0) {
        CHECK(buffer_format(out, " %.4f | %.4f |\n", k->before / k->measured,
                            k->after / k->measured));
    } else {
        CHECK(buffer_append_string(out, " - | - |\n"));
    }
    return GRAIL_OK;
}

static grail_status put_cut(const json_t *report, buffer *out)
{
    const json_t *sites = json_object_get(report, "sites");
    if (json_array_size(sites) == 0) {
        return GRAIL_OK;
    }
    CHECK(buffer_append_string(
        out, "## Cut\n\n"
             "| kind | sites | units kept | width | selector | error of the plain cut | "
             "error after the repair |\n|---|---|---|---|---|---|---|\n"));
    for (int i = 0; grail_site_kind_at(i) != NULL; i++) {
        const kind_summary k = summarise(sites, grail_site_kind_at(i));
        if (k.sites > 0) {
            CHECK(put_kind(&k, out));
        }
    }
    return buffer_append_string(
        out,
        "\nUnits and widths are sums over the sites. The errors are relative squared errors of "
        "what the matrices behind the cuts give, on calibration rows that were held out of the "
        "fit; means over the sites. plan.json has the choices, report.json every site.\n\n");
}

/* -- how it was repaired and measured ---------------------------------------------------------- */

static grail_status put_choice(const char *label, const json_t *value, buffer *out)
{
    return json_is_string(value)
               ? buffer_format(out, "- %s: %s\n", label, json_string_value(value))
               : buffer_format(out, "- %s: %.6g\n", label, json_number_value(value));
}

/* The choices of a plan that change most what a fit gives; plan.json has them all. */
static grail_status put_choices(const json_t *plan, buffer *out)
{
    static const struct {
        const char *key, *label;
    } choices[] = {{"target", "target"}, {"fit", "fitted"},
                   {"bias", "bias"},     {"ridge", "ridge towards"},
                   {"alpha", "alpha"},   {"refit", "refits of other matrices"}};
    const json_t *how = json_object_get(plan, "compensation");
    for (size_t i = 0; i < sizeof choices / sizeof choices[0]; i++) {
        CHECK(put_choice(choices[i].label, json_object_get(how, choices[i].key), out));
    }
    return put_choice("loop", json_object_get(plan, "loop"), out);
}

static bool has_batch_norm(const graph *g)
{
    for (int n = 0; n < g->node_count; n++) {
        if (node_has_moments(&g->nodes[n])) {
            return true;
        }
    }
    return false;
}

/* Fits whose weights stayed, because nothing did better on the held-out rows. */
typedef struct kept_weights {
    int fits, bias_only, plain;
} kept_weights;

static void add_fits(const json_t *fits, kept_weights *k)
{
    size_t i = 0;
    const json_t *one = NULL;
    json_array_foreach (fits, i, one) {
        const char *fallback = text_of(one, "fallback");
        k->fits++;
        k->bias_only += strcmp(fallback, "bias only") == 0 ? 1 : 0;
        k->plain += strcmp(fallback, "kept plain") == 0 ? 1 : 0;
    }
}

static grail_status put_kept_weights(const json_t *report, buffer *out)
{
    kept_weights k = {0};
    size_t i = 0;
    const json_t *one = NULL;
    json_array_foreach (json_object_get(report, "sites"), i, one) {
        add_fits(json_object_get(one, "consumers"), &k);
    }
    add_fits(json_object_get(report, "refits"), &k);
    if (k.bias_only + k.plain == 0) {
        return GRAIL_OK;
    }
    return buffer_format(out,
                         "- weights that stayed, because no fit did better on the held-out rows: "
                         "%d of %d with a new bias only, %d as they were\n",
                         k.bias_only, k.fits, k.plain);
}

static grail_status put_repair(const json_t *report, const grail_model *base, buffer *out)
{
    const json_t *plan = json_object_get(report, "plan");
    const json_t *how = json_object_get(plan, "compensation");
    if (!json_is_true(json_object_get(how, "enabled"))) {
        return buffer_append_string(out, "## Repair\n\nNone.\n\n");
    }
    CHECK(buffer_append_string(out, "## Repair\n\nRidge regressions in closed form:\n\n"));
    CHECK(put_choices(plan, out));
    if (has_batch_norm(base->graph)) {
        CHECK(buffer_format(out, "- statistics of BatchNorm: %s\n",
                            json_is_true(json_object_get(plan, "repair")) ? "measured again"
                                                                          : "as they were"));
    }
    CHECK(put_kept_weights(report, out));
    return buffer_append_string(out, "\n");
}

static grail_status put_quantisation(const json_t *report, buffer *out)
{
    const json_t *q = json_object_get(report, "quantized");
    if (q == NULL) {
        return GRAIL_OK;
    }
    CHECK(buffer_format(out, "## Quantisation\n\n%s: %lld matrices ", text_of(q, "type"),
                        (long long)json_integer_value(json_object_get(q, "matrices"))));
    if (is_file_of_directory(report)) {
        CHECK(buffer_append_string(out, "in blocks of a GGUF file, "));
    } else {
        CHECK(buffer_format(out,
                            "have %lld bits for each weight and a scale for each %lld of a row, ",
                            (long long)json_integer_value(json_object_get(q, "bits")),
                            (long long)json_integer_value(json_object_get(q, "group"))));
    }
    return buffer_append_string(out, "rounded with error feedback on what they read (GPTQ).\n\n");
}

static grail_status put_trained(const json_t *one, buffer *out)
{
    const json_t *block = json_object_get(one, "block");
    const long long first = (long long)json_integer_value(block);
    const long long last = (long long)json_integer_value(json_object_get(one, "last_block"));
    if (!json_is_integer(block)) {
        return buffer_append_string(out, "- the whole network");
    }
    return last > first ? buffer_format(out, "- blocks %lld to %lld", first + 1, last + 1)
                        : buffer_format(out, "- block %lld", first + 1);
}

static grail_status put_training(const json_t *one, buffer *out)
{
    CHECK(put_trained(one, out));
    const json_int_t best = json_integer_value(json_object_get(one, "best_step"));
    if (!json_is_number(json_object_get(one, "held_loss_before"))) {
        return buffer_append_string(out, ": not trained, the time did not suffice\n");
    }
    const double before = json_number_value(json_object_get(one, "held_loss_before"));
    CHECK(buffer_format(out, ": %lld steps, loss on held-out samples %.5f",
                        (long long)json_integer_value(json_object_get(one, "steps")), before));
    if (best == 0) {
        CHECK(buffer_append_string(out, ", which none made lower beyond chance: kept as it was\n"));
    } else {
        CHECK(buffer_format(out, " -> %.5f, reached at step %lld\n",
                            json_number_value(json_object_get(one, "held_loss_after")),
                            (long long)best));
    }
    return GRAIL_OK;
}

/* How long and how far was gone, by the options. */
static grail_status put_heal_options(const json_t *heal, buffer *out)
{
    const json_t *seconds = json_object_get(heal, "seconds");
    const char *before = "The largest step is ";
    CHECK(buffer_format(out, "At most %lld steps each",
                        (long long)json_integer_value(json_object_get(heal, "steps"))));
    if (json_is_number(seconds)) {
        CHECK(buffer_format(out, ", and %g seconds for all", json_number_value(seconds)));
    }
    CHECK(buffer_append_string(out, ". "));
    if (json_is_true(json_object_get(heal, "block"))) {
        CHECK(buffer_format(out, "%s%g for blocks", before,
                            json_number_value(json_object_get(heal, "block_rate"))));
        before = " and ";
    }
    if (json_is_true(json_object_get(heal, "model"))) {
        CHECK(buffer_format(out, "%s%g for the whole network", before,
                            json_number_value(json_object_get(heal, "model_rate"))));
    }
    return buffer_append_string(out, ", times the root mean square of a matrix.\n\n");
}

static grail_status put_healing(const json_t *report, buffer *out)
{
    size_t i = 0;
    const json_t *one = NULL;
    if (!is_healed(report)) {
        return GRAIL_OK;
    }
    CHECK(buffer_append_string(
        out, "## Healing\n\nTrained towards the dense network, without labels:\n\n"));
    json_array_foreach (json_object_get(report, "healed"), i, one) {
        CHECK(put_training(one, out));
    }
    CHECK(buffer_append_string(out, "\n"));
    return put_heal_options(json_object_get(report, "heal"), out);
}

/* The statistics are those of the dense network, where a run took them from a file. */
static grail_status put_statistics(const json_t *statistics, buffer *out)
{
    const json_int_t samples = json_integer_value(json_object_get(statistics, "samples"));
    if (statistics == NULL) {
        return GRAIL_OK;
    }
    CHECK(buffer_append_string(out, "Statistics of the dense network from "));
    CHECK(put_code(out, text_of(statistics, "file")));
    return samples > 0 ? buffer_format(out, ", over %lld samples.\n\n", (long long)samples)
                       : buffer_append_string(out, ".\n\n");
}

/* " of `FILE` (sha256 ...)"; nothing where the record names no data. */
static grail_status put_data(const json_t *record, const char *name, const char *hash, buffer *out)
{
    if (json_object_get(record, name) == NULL) {
        return GRAIL_OK;
    }
    if (json_is_true(json_object_get(record, CALIBRATION_DRAWN_KEY))) {
        return buffer_append_string(out, " of text that the dense network drew itself");
    }
    CHECK(buffer_append_string(out, " of "));
    CHECK(put_code(out, text_of(record, name)));
    return buffer_format(out, " (sha256 %.16s...)", text_of(record, hash));
}

static grail_status put_samples(const json_t *c, json_int_t samples, bool of_text, buffer *out)
{
    const json_int_t context = json_integer_value(json_object_get(c, "context"));
    if (!of_text) {
        return buffer_format(out, "%lld images", (long long)samples);
    }
    if (json_object_get(c, CALIBRATION_FULL_KEY) == NULL) {
        return buffer_format(out, "%lld windows of %lld tokens", (long long)samples,
                             (long long)context);
    }
    return buffer_format(out, "%lld documents, one in each window, of up to %lld tokens",
                         (long long)samples, (long long)context);
}

static grail_status put_calibration(const json_t *report, buffer *out)
{
    const json_t *c = json_object_get(report, "calibration");
    const json_int_t samples = json_integer_value(json_object_get(c, "samples"));
    const json_t *parts = json_object_get(c, "parts");
    const bool of_text = json_object_get(c, "file") != NULL || parts != NULL;
    CHECK(buffer_append_string(out, "## Calibration\n\n"));
    CHECK(put_statistics(json_object_get(c, "statistics"), out));
    if (samples == 0) {
        return json_object_get(c, "statistics") != NULL ? GRAIL_OK
                                                        : buffer_append_string(out, "None.\n\n");
    }
    CHECK(put_samples(c, samples, of_text, out));
    CHECK(put_data(c, of_text ? "file" : "images", of_text ? "text_sha256" : "images_sha256", out));
    for (size_t i = 0; i < json_array_size(parts); i++) {
        const json_t *part = json_array_get(parts, i);
        CHECK(buffer_format(out, "%s %lld", i == 0 ? ":" : ",",
                            (long long)json_integer_value(json_object_get(part, "samples"))));
        CHECK(put_data(part, "file", "text_sha256", out));
    }
    return buffer_format(out, ", computed in %s.\n\n", text_of(report, "precision"));
}

static grail_status put_notice(const json_t *report, buffer *out)
{
    const char *notice = text_of(json_object_get(report, "calibration"), "notice");
    if (notice[0] == 0) {
        return GRAIL_OK;
    }
    CHECK(buffer_append_string(out, "Note: "));
    CHECK(escape_append(GRAIL_ESCAPE_LINE, notice, strlen(notice), out));
    return buffer_append_string(out, ".\n\n");
}

static grail_status put_size(const json_t *report, const char *what, const char *key, buffer *out)
{
    const json_int_t dense =
        json_integer_value(json_object_get(json_object_get(report, "dense"), key));
    const json_int_t narrow =
        json_integer_value(json_object_get(json_object_get(report, "narrow"), key));
    return dense == 0
               ? GRAIL_OK
               : buffer_format(out, "| %s | %lld | %lld | %.1f %% |\n", what, (long long)dense,
                               (long long)narrow, 100.0 * (double)narrow / (double)dense);
}

static grail_status put_sizes(const json_t *report, buffer *out)
{
    CHECK(buffer_append_string(out, "## Size\n\n| | before | after | |\n|---|---|---|---|\n"));
    CHECK(put_size(report, "parameters", "parameters", out));
    CHECK(put_size(report, "bytes of weights", "bytes", out));
    CHECK(put_size(report, "multiply-accumulates per token or image", "macs_per_token", out));
    CHECK(put_size(report, "bytes of key and value cache per token", "kv_bytes_per_token", out));
    return buffer_append_string(out, "\n");
}

/* The lines of the first loader that has some; NULL where none has. The classes come before the
 * file. */
static const json_t *find_lines(const json_t *report)
{
    size_t i = 0;
    const json_t *one = NULL;
    json_array_foreach (json_object_get(report, "loaders"), i, one) {
        const json_t *lines = json_object_get(one, "lines");
        if (lines != NULL) {
            return lines;
        }
    }
    return NULL;
}

static grail_status put_lines(const json_t *lines, buffer *out)
{
    size_t i = 0;
    const json_t *line = NULL;
    if (lines == NULL) {
        return GRAIL_OK;
    }
    CHECK(buffer_append_string(out, "\nIn Python, where DIR is this directory:\n\n"));
    json_array_foreach (lines, i, line) {
        const char *text = json_string_value(line);
        CHECK(buffer_append_string(out, "    "));
        CHECK(escape_append(GRAIL_ESCAPE_LINE, text, strlen(text), out));
        CHECK(buffer_append_string(out, "\n"));
    }
    return GRAIL_OK;
}

static grail_status put_loaders(const json_t *report, buffer *out)
{
    size_t i = 0;
    const json_t *one = NULL;
    CHECK(buffer_append_string(out, "## What opens it\n\n- grail: yes\n"));
    json_array_foreach (json_object_get(report, "loaders"), i, one) {
        const char *reason = text_of(one, "reason");
        CHECK(buffer_format(out, "- %s: %s%s", text_of(one, "loader"),
                            json_is_true(json_object_get(one, "loads")) ? "yes" : "no",
                            reason[0] == 0 ? "" : "; "));
        CHECK(escape_append(GRAIL_ESCAPE_LINE, reason, strlen(reason), out));
        CHECK(buffer_append_string(out, "\n"));
    }
    return put_lines(find_lines(report), out);
}

static grail_status put_command(const char *command, buffer *out)
{
    if (command == NULL) {
        return GRAIL_OK;
    }
    CHECK(buffer_append_string(out, "\n## Command\n\n    "));
    CHECK(escape_append(GRAIL_ESCAPE_LINE, command, strlen(command), out));
    return buffer_append_string(out, "\n");
}

static grail_status put_title(const json_t *report, buffer *out)
{
    const json_t *teacher = json_object_get(report, "teacher");
    CHECK(buffer_format(out, "# A %s %s\n\nMade by grail from ",
                        teacher != NULL ? "healed" : "narrowed",
                        text_of(json_object_get(report, "dense"), "architecture")));
    CHECK(put_code(out, text_of(report, "model")));
    if (teacher != NULL) {
        CHECK(buffer_append_string(out, ", which was narrowed earlier, and the dense "));
        CHECK(put_code(out, json_string_value(teacher)));
    }
    return buffer_append_string(out, ".\n\n");
}

grail_status model_card_append(const json_t *report, const grail_model *base, const char *command,
                               const buffer *sections, buffer *out)
{
    CHECK(put_front_matter(report, base, out));
    CHECK(put_title(report, out));
    if (json_object_get(report, "teacher") == NULL) {
        CHECK(put_cut(report, out));
        CHECK(put_repair(report, base, out));
    }
    CHECK(put_healing(report, out));
    CHECK(put_quantisation(report, out));
    CHECK(put_calibration(report, out));
    CHECK(put_notice(report, out));
    CHECK(buffer_append(out, sections->bytes, sections->size));
    CHECK(put_sizes(report, out));
    CHECK(put_loaders(report, out));
    return put_command(command, out);
}
