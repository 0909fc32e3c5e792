#include "study/page/command.h"

#include <grail/plan.h>

#include <math.h>
#include <stdio.h>
#include <string.h>

/* Whether a shell takes the text as it is. */
static bool is_plain(const char *text)
{
    static const char plain[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789"
                                "_./,:=+@%-";
    return text[0] != 0 && strspn(text, plain) == strlen(text);
}

/* A word of the command: in quotes where it must be. */
static grail_status add_word(buffer *out, const char *text)
{
    if (is_plain(text)) {
        return buffer_append_string(out, text);
    }
    CHECK(buffer_append_string(out, "'"));
    for (; *text != 0; text++) {
        CHECK(*text == '\'' ? buffer_append_string(out, "'\\''") : buffer_append(out, text, 1));
    }
    return buffer_append_string(out, "'");
}

/* Length of a path without its last name; -1 where that is missing or goes up itself. */
static ptrdiff_t length_of_parent(const char *path, size_t length)
{
    const char *slash = length > 0 ? memrchr(path, '/', length) : NULL;
    const char *name = slash == NULL ? path : slash + 1;
    const size_t size = length - (size_t)(name - path);
    const bool goes_up = size == 2 && memcmp(name, "..", 2) == 0;
    return size == 0 || goes_up ? -1 : slash == NULL ? 0 : slash == path ? 1 : slash - path;
}

/* Leaves out what a path goes down and up again, as in bench/recipes/../../demo, and names of ".":
 * the recipe's own directory need not be there where the command is run. In place. */
static void shorten_path(char *path)
{
    size_t length = path[0] == '/' ? 1 : 0;
    const char *next = path + length;
    while (*next != 0) {
        const size_t size = strcspn(next, "/");
        const char *name = next;
        next += size + strspn(next + size, "/");
        if (size == 1 && name[0] == '.') {
            continue;
        }
        const ptrdiff_t parent =
            size == 2 && memcmp(name, "..", 2) == 0 ? length_of_parent(path, length) : -1;
        if (parent >= 0) {
            length = (size_t)parent;
            continue;
        }
        if (length > 0 && path[length - 1] != '/') {
            path[length++] = '/';
        }
        memmove(path + length, name, size);
        length += size;
    }
    path[length] = 0;
}

/* A path that begins with a dash would be an option. */
static grail_status add_path(buffer *out, const char *directory, const char *path)
{
    grail_status status = GRAIL_OK;
    char *joined = NULL;
    char *safe = NULL;
    TRY(memory_format(&joined, "%s%s", path[0] == '/' ? "" : directory, path));
    shorten_path(joined);
    TRY(memory_format(&safe, "%s%s%s", joined[0] == '-' ? "./" : "", joined,
                      joined[0] == 0 ? "." : ""));
    TRY(add_word(out, safe));
out:
    memory_free(joined);
    memory_free(safe);
    return status;
}

/* At most six decimals, in every locale. */
static grail_status add_number(buffer *out, double value)
{
    const long long millionths = llround(fabs(value) * 1e6);
    char decimals[8];
    size_t length = (size_t)snprintf(decimals, sizeof decimals, "%06lld", millionths % 1000000);
    while (length > 0 && decimals[length - 1] == '0') {
        decimals[--length] = 0;
    }
    return buffer_format(out, "%s%lld%s%s", value < 0.0 && millionths > 0 ? "-" : "",
                         millionths / 1000000, length > 0 ? "." : "", decimals);
}

static grail_status add_option(buffer *out, const char *name, const char *value)
{
    CHECK(buffer_format(out, " --%s ", name));
    return add_word(out, value);
}

static grail_status add_value(buffer *out, const json_t *value)
{
    if (json_is_string(value)) {
        return add_word(out, json_string_value(value));
    }
    if (json_is_number(value)) {
        return add_number(out, json_number_value(value));
    }
    if (json_is_boolean(value)) {
        return buffer_append_string(out, json_is_true(value) ? "true" : "false");
    }
    for (size_t i = 0; i < json_array_size(value); i++) {
        CHECK(i > 0 ? buffer_append_string(out, ",") : GRAIL_OK);
        CHECK(add_value(out, json_array_get(value, i)));
    }
    return GRAIL_OK;
}

/* The option of that name with the key's value; `usual`, unless it is NULL, where the key is
 * missing.
 */
static grail_status add_key(buffer *out, const json_t *object, const char *key, const char *name,
                            const char *usual)
{
    const json_t *value = json_object_get(object, key);
    if (value == NULL && usual != NULL) {
        return add_option(out, name, usual);
    }
    if (value == NULL || json_is_null(value) || json_is_object(value)) {
        return GRAIL_OK;
    }
    CHECK(buffer_format(out, " --%s ", name));
    return add_value(out, value);
}

/* The entry of an array with this name, or the object itself. */
static const json_t *find_named(const json_t *found, const char *name)
{
    if (!json_is_array(found)) {
        return found;
    }
    for (size_t i = 0; name != NULL && i < json_array_size(found); i++) {
        const json_t *entry = json_array_get(found, i);
        const char *own = json_string_value(json_object_get(entry, "name"));
        if (own != NULL && strcmp(own, name) == 0) {
            return entry;
        }
    }
    return NULL;
}

/* What the sweep put before relative paths of the recipe: `used` less `named` at its end. "" where
 * they do not fit. */
static grail_status find_directory(const char *used, const char *named, char **out)
{
    const size_t length = strlen(used);
    const size_t end = named == NULL ? length : strlen(named);
    const bool fits = end < length && strcmp(used + length - end, named) == 0 &&
                      used[length - end - 1] == '/' && named[0] != '/';
    return fits ? memory_format(out, "%.*s", (int)(length - end), used)
                : memory_copy_string(out, "");
}

static grail_status add_settings(buffer *out, json_t *settings)
{
    grail_status status = GRAIL_OK;
    const char *key = NULL;
    json_t *value = NULL;
    buffer text = {0};
    buffer_init(&text, 1 << 16);
    json_object_foreach (settings, key, value) {
        text.size = 0;
        TRY(buffer_format(&text, "%s=", key));
        TRY(json_is_string(value) ? buffer_append_string(&text, json_string_value(value))
                                  : add_value(&text, value));
        TRY(add_option(out, "set", (const char *)text.bytes));
    }
out:
    buffer_fini(&text);
    return status;
}

static grail_status add_model(buffer *out, const char *used, const json_t *entry)
{
    const char *named = json_string_value(json_object_get(entry, "path"));
    const char *path = used != NULL && used[0] != 0 ? used : named;
    CHECK(buffer_append_string(out, "grail compress "));
    CHECK(path == NULL ? buffer_append_string(out, "MODEL") : add_path(out, "", path));
    CHECK(buffer_append_string(out, " -o narrow"));
    return add_settings(out, json_object_get(entry, "settings"));
}

/* The options that a source of images or text has keys for; the path is not among them. */
static grail_status add_source(buffer *out, const json_t *source, grail_option_at at)
{
    for (int i = 0; at(i) != NULL; i++) {
        const grail_option *o = at(i);
        if (o->key == NULL || o->name == NULL) {
            continue;
        }
        if (o->type == GRAIL_OPTION_FLAG) {
            CHECK(json_is_true(json_object_get(source, o->key))
                      ? buffer_format(out, " --%s", o->name)
                      : GRAIL_OK);
        } else {
            CHECK(add_key(out, source, o->key, o->name, NULL));
        }
    }
    return GRAIL_OK;
}

static grail_status add_calibration(buffer *out, const json_t *recipe, const char *name,
                                    const char *directory)
{
    const json_t *calibration = find_named(json_object_get(recipe, "calibration"), name);
    const char *path = json_string_value(json_object_get(calibration, "path"));
    const char *kind = json_string_value(json_object_get(calibration, "kind"));
    const bool is_text = kind != NULL && strcmp(kind, "text") == 0;
    CHECK(buffer_append_string(out, " --calib "));
    CHECK(path == NULL ? buffer_append_string(out, "CALIBRATION") : add_path(out, directory, path));
    return add_source(out, calibration, is_text ? grail_text_option_at : grail_image_option_at);
}

/* -- further choices ---------------------------------------------------------------------------
 */

/* The value that a cell's choices give a key, as *size bytes; NULL where they do not. */
static const char *find_choice(const char *choices, const char *key, size_t *size)
{
    const size_t length = strlen(key);
    for (const char *at = choices; at != NULL && *at != 0; at += strspn(at, " ")) {
        const size_t word = strcspn(at, " ");
        if (word > length && at[length] == '=' && strncmp(at, key, length) == 0) {
            *size = word - length - 1;
            return at + length + 1;
        }
        at += word;
    }
    return NULL;
}

/* What a key has: in the cell, in the recipe, or `usual`, which may be NULL; "" where that is
 * nothing that an option says. *out is owned. */
static grail_status value_of(const result_cell *cell, const json_t *recipe, const char *key,
                             const char *usual, char **out)
{
    grail_status status = GRAIL_OK;
    size_t size = 0;
    const char *own = find_choice(cell->settings.choices, key, &size);
    const json_t *value = json_object_get(recipe, key);
    buffer text = {0};
    buffer_init(&text, 1 << 16);
    TRY(buffer_append_string(&text, ""));
    if (own != NULL) {
        TRY(buffer_append(&text, own, size));
    } else if (json_is_string(value)) {
        TRY(buffer_append_string(&text, json_string_value(value)));
    } else if (value != NULL && !json_is_null(value) && !json_is_object(value)) {
        TRY(add_value(&text, value));
    } else if (usual != NULL) {
        TRY(buffer_append_string(&text, usual));
    }
    TRY(memory_copy_string(out, text.size == 0 ? "" : (const char *)text.bytes));
out:
    buffer_fini(&text);
    return status;
}

/* A sweep's own defaults of align and precision are not those of the command. */
static const char *usual_of(const char *key)
{
    return strcmp(key, "align") == 0 ? "1" : strcmp(key, "precision") == 0 ? "f32" : NULL;
}

/* How the command writes a value that the recipe has in its own way. */
static const char *as_option(const grail_option *o, const char *value)
{
    const bool is_zero = strcmp(value, "0") == 0;
    if (o->type == GRAIL_OPTION_NUMBER && strcmp(value, "cross-validation") == 0) {
        return o->words[0];
    }
    if (o->zero_is_usual != 0 && is_zero) { /* the command's own default */
        return strcmp(o->key, "align") == 0 ? "auto" : "";
    }
    return value;
}

static grail_status add_choice(buffer *out, const result_cell *cell, const json_t *recipe,
                               const grail_option *o)
{
    grail_status status = GRAIL_OK;
    char *value = NULL;
    TRY(value_of(cell, recipe, o->key, usual_of(o->key), &value));
    const char *text = as_option(o, value);
    if (o->type == GRAIL_OPTION_FLAG) {
        TRY(strcmp(text, "true") == 0 ? buffer_format(out, " --%s", o->name) : GRAIL_OK);
    } else if (text[0] != 0) {
        TRY(add_option(out, o->name, text));
    }
out:
    memory_free(value);
    return status;
}

/* The fields of a list that a recipe has keys for; `heals` tells whether the cell is healed. */
static grail_status add_choices(buffer *out, const result_cell *cell, const json_t *recipe,
                                grail_option_at at, bool heals)
{
    static const char *const elsewhere[] = {"loop", "repair", "heal", "limit"};
    for (int i = 0; at(i) != NULL; i++) {
        const grail_option *o = at(i);
        bool skipped =
            o->key == NULL || o->name == NULL || (o->subject == GRAIL_SUBJECT_HEAL && !heals);
        for (size_t e = 0; e < sizeof elsewhere / sizeof elsewhere[0] && !skipped; e++) {
            skipped = strcmp(o->key, elsewhere[e]) == 0;
        }
        CHECK(skipped ? GRAIL_OK : add_choice(out, cell, recipe, o));
    }
    return GRAIL_OK;
}

static grail_status add_sites(buffer *out, const result_cell *cell, const json_t *recipe)
{
    grail_status status = GRAIL_OK;
    char *sites = NULL;
    TRY(value_of(cell, recipe, "sites", NULL, &sites));
    if (sites[0] != 0) {
        TRY(add_option(out, "sites", sites));
    }
out:
    memory_free(sites);
    return status;
}

/* The ratio of a limit, or of every site. Only that of parameters has an option for a share; others
 * want their number. */
static grail_status add_amount(buffer *out, const result_cell *cell, const json_t *recipe,
                               const line_measures *dense)
{
    grail_status status = GRAIL_OK;
    const double sparsity = cell->settings.sparsity;
    char *limit = NULL;
    char *budget = NULL;
    TRY(value_of(cell, recipe, "limit", NULL, &limit));
    TRY(value_of(cell, recipe, "budget", NULL, &budget));
    if (limit[0] == 0 && budget[0] == 0) {
        TRY(buffer_append_string(out, " --sparsity "));
        TRY(add_number(out, sparsity));
    } else if (strcmp(limit, "macs") == 0) {
        TRY(buffer_format(out, " --target-macs %.0f", dense->macs * (1.0 - sparsity)));
    } else if (limit[0] == 0 || strcmp(limit, "params") == 0) {
        TRY(buffer_append_string(out, " --target-ratio "));
        TRY(add_number(out, 1.0 - sparsity));
    } else {
        TRY(buffer_format(out, " --target-%s BYTES", limit));
    }
    if (limit[0] != 0 || budget[0] != 0) {
        TRY(add_choices(out, cell, recipe, grail_plan_option_at, false));
    }
out:
    memory_free(limit);
    memory_free(budget);
    return status;
}

static grail_status add_cell(buffer *out, const result_cell *cell, const json_t *recipe,
                             const line_measures *dense)
{
    const line_settings *s = &cell->settings;
    const heal_kind heal = variant_heal(s->variant);
    CHECK(add_option(out, "selector", s->selector));
    CHECK(add_amount(out, cell, recipe, dense));
    CHECK(buffer_format(out, " --compensate %s%s --samples %lld --seed %lld%s",
                        variant_compensation(s->variant),
                        variant_repairs(s->variant) ? " --repair" : "", (long long)s->samples,
                        (long long)s->seed, s->open_loop ? " --loop open" : ""));
    if (heal != HEAL_NONE) {
        CHECK(add_option(out, "heal", heal_kind_name(heal)));
    }
    CHECK(add_sites(out, cell, recipe));
    return add_choices(out, cell, recipe, grail_compress_option_at, heal != HEAL_NONE);
}

grail_status command_write(const aggregate *a, const cell_group *g, buffer *out)
{
    grail_status status = GRAIL_OK;
    const results *r = a->results;
    const json_t *recipe = r->header.recipe;
    const result_cell *cell = g->cells[0];
    const result_checkpoint *c = &r->checkpoints[cell->checkpoint];
    const json_t *entry = find_named(json_object_get(recipe, "checkpoints"), c->network);
    char *directory = NULL;
    TRY(find_directory(c->path == NULL ? "" : c->path,
                       json_string_value(json_object_get(entry, "path")), &directory));
    TRY(add_model(out, c->path, entry));
    TRY(add_calibration(out, recipe, cell->settings.calibration, directory));
    TRY(add_cell(out, cell, recipe, &c->measures));
out:
    memory_free(directory);
    return status;
}
