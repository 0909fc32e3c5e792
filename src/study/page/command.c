#include "study/page/command.h"

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

/* The entry of a checkpoint in the recipe; NULL where there is none. */
static const json_t *find_checkpoint(const json_t *recipe, const char *name)
{
    const json_t *list = json_object_get(recipe, "checkpoints");
    for (size_t i = 0; i < json_array_size(list); i++) {
        const json_t *entry = json_array_get(list, i);
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

/* Keys of a calibration that are options of the same name. */
static const char *const calibration_keys[] = {"preset", "split", "size",     "mean",
                                               "std",    "field", "protocol", "context"};

static grail_status add_calibration(buffer *out, const json_t *recipe, const char *directory)
{
    const json_t *calibration = json_object_get(recipe, "calibration");
    const char *path = json_string_value(json_object_get(calibration, "path"));
    CHECK(buffer_append_string(out, " --calib "));
    CHECK(path == NULL ? buffer_append_string(out, "CALIBRATION") : add_path(out, directory, path));
    for (size_t i = 0; i < sizeof calibration_keys / sizeof calibration_keys[0]; i++) {
        CHECK(add_key(out, calibration, calibration_keys[i], calibration_keys[i], NULL));
    }
    return GRAIL_OK;
}

/* What the recipe says for all cells; a sweep's own defaults of align and precision are not those
 * of the command. */
static grail_status add_recipe(buffer *out, const json_t *recipe)
{
    const json_t *align = json_object_get(recipe, "align");
    CHECK(add_key(out, recipe, "sites", "sites", NULL));
    CHECK(json_is_integer(align) && json_integer_value(align) == 0
              ? add_option(out, "align", "auto")
              : add_key(out, recipe, "align", "align", "1"));
    CHECK(add_key(out, recipe, "select", "select", NULL));
    CHECK(add_key(out, recipe, "stream_score", "stream-score", NULL));
    return add_key(out, recipe, "precision", "precision", "f32");
}

static grail_status add_healing(buffer *out, variant v, const json_t *recipe)
{
    static const char *const numbers[][2] = {{"heal_steps", "heal-steps"},
                                             {"heal_rate", "heal-rate"}};
    if (variant_heal(v) == HEAL_NONE) {
        return GRAIL_OK;
    }
    CHECK(add_option(out, "heal", heal_kind_name(variant_heal(v))));
    for (size_t i = 0; i < sizeof numbers / sizeof(numbers[0]); i++) {
        if (json_number_value(json_object_get(recipe, numbers[i][0])) > 0.0) {
            CHECK(add_key(out, recipe, numbers[i][0], numbers[i][1], NULL));
        }
    }
    return GRAIL_OK;
}

static grail_status add_cell(buffer *out, const line_settings *s)
{
    CHECK(add_option(out, "selector", s->selector));
    CHECK(buffer_append_string(out, " --sparsity "));
    CHECK(add_number(out, s->sparsity));
    return buffer_format(out, " --compensate %s%s --samples %lld --seed %lld%s",
                         variant_compensation(s->variant),
                         variant_repairs(s->variant) ? " --repair" : "", (long long)s->samples,
                         (long long)s->seed, s->open_loop ? " --loop open" : "");
}

grail_status command_write(const aggregate *a, const cell_group *g, buffer *out)
{
    grail_status status = GRAIL_OK;
    const results *r = a->results;
    const json_t *recipe = r->header.recipe;
    const result_cell *cell = g->cells[0];
    const result_checkpoint *c = &r->checkpoints[cell->checkpoint];
    const json_t *entry = find_checkpoint(recipe, c->name);
    char *directory = NULL;
    TRY(find_directory(c->path == NULL ? "" : c->path,
                       json_string_value(json_object_get(entry, "path")), &directory));
    TRY(add_model(out, c->path, entry));
    TRY(add_calibration(out, recipe, directory));
    TRY(add_cell(out, &cell->settings));
    TRY(add_healing(out, cell->settings.variant, recipe));
    TRY(add_recipe(out, recipe));
out:
    memory_free(directory);
    return status;
}
