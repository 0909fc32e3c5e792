#include "arch/sentence_modules.h"

#include "base/file.h"

#include <stdio.h>
#include <string.h>

enum { LARGEST_FILE = 1 << 20, MOST_MODULES = 64 };

/* Reads a file of settings; *out is NULL where there is none. */
static grail_status read_settings(const char *path, json_t **out)
{
    *out = NULL;
    return file_exists(path) ? json_read_file(path, LARGEST_FILE, out) : GRAIL_OK;
}

grail_status sentence_modules_read(const char *directory, char **path, json_t **modules)
{
    *modules = NULL;
    CHECK(path_join(path, directory, "modules.json"));
    CHECK(read_settings(*path, modules));
    if (json_array_size(*modules) > MOST_MODULES) {
        return error_set(GRAIL_ERROR_FORMAT, "%s: %zu modules, expected at most %d", *path,
                         json_array_size(*modules), MOST_MODULES);
    }
    return GRAIL_OK;
}

grail_status sentence_module_folder(const char *path, const json_t *module, const char **out)
{
    const char *folder = json_string_value(json_object_get(module, "path"));
    *out = folder == NULL || folder[0] == 0 ? NULL : folder;
    if (*out != NULL &&
        (folder[0] == '.' || strpbrk(folder, "/\\") != NULL || strlen(folder) >= 128)) {
        return error_set(GRAIL_ERROR_FORMAT,
                         "%s: the path \"%s\" of a module is not the name of a folder beside the "
                         "weights, such as 1_Pooling",
                         path, folder);
    }
    return GRAIL_OK;
}

grail_status sentence_length(const char *directory, int64_t *out)
{
    grail_status status = GRAIL_OK;
    char *path = NULL;
    json_t *settings = NULL;
    *out = 0;
    TRY(path_join(&path, directory, "sentence_bert_config.json"));
    TRY(read_settings(path, &settings));
    if (settings != NULL && !json_is_null(json_object_get(settings, "max_seq_length"))) {
        TRY(json_get_integer(path, settings, "max_seq_length", 0, out));
    }
    if (*out < 0) {
        FAIL(GRAIL_ERROR_FORMAT, "%s: \"max_seq_length\" is %lld, expected a number of tokens",
             path, (long long)*out);
    }
out:
    json_decref(settings);
    memory_free(path);
    return status;
}

/* -- pooling ----------------------------------------------------------------------------------- */

/* Ways that the settings name, and whether grail has them; the root of the length changes the size
 * of a vector alone. */
static const struct {
    const char *key, *word; /* in files of older and of newer releases */
    bool is_mean, is_first;
} ways[] = {
    {"pooling_mode_cls_token", "cls", false, true},
    {"pooling_mode_mean_tokens", "mean", true, false},
    {"pooling_mode_mean_sqrt_len_tokens", "mean_sqrt_len_tokens", true, false},
    {"pooling_mode_max_tokens", "max", false, false},
    {"pooling_mode_weightedmean_tokens", "weightedmean", false, false},
    {"pooling_mode_lasttoken", "lasttoken", false, false},
};
enum { WAYS = sizeof ways / sizeof ways[0] };

/* The mean is chosen where nothing is said of it. */
static grail_status read_pooling(const char *directory, const char *folder, sentence_pooling *out)
{
    grail_status status = GRAIL_OK;
    char *place = NULL;
    char *path = NULL;
    json_t *settings = NULL;
    int count = 0;
    int found = 0;
    TRY(path_join(&place, directory, folder));
    TRY(path_join(&path, place, "config.json"));
    TRY(read_settings(path, &settings));
    if (settings == NULL) {
        snprintf(out->notice, sizeof out->notice,
                 "no %s/config.json says how vectors are pooled, so they are means", folder);
        goto out;
    }
    const char *word = json_string_value(json_object_get(settings, "pooling_mode"));
    for (int i = 0; i < WAYS; i++) {
        bool chosen = word != NULL && strcmp(word, ways[i].word) == 0;
        if (word == NULL) {
            const bool is_mean = strcmp(ways[i].word, "mean") == 0;
            TRY(json_get_boolean(path, settings, ways[i].key, is_mean, &chosen));
        }
        found = chosen ? i : found;
        count += chosen ? 1 : 0;
    }
    out->first = count == 1 && ways[found].is_first;
    if (count != 1 || (!ways[found].is_first && !ways[found].is_mean)) {
        snprintf(out->notice, sizeof out->notice,
                 "%.120s pools by %s, which is not measured; vectors are means", path,
                 count == 0  ? "no way that is known"
                 : count > 1 ? "several ways"
                             : ways[found].word);
    }
out:
    json_decref(settings);
    memory_free(path);
    memory_free(place);
    return status;
}

const char *sentence_pooling_name(const sentence_pooling *pooling)
{
    return pooling->first ? "cls" : "mean";
}

/* The last word of a module's type, as "Pooling" of "sentence_transformers.models.Pooling". */
static const char *kind_of(const json_t *module)
{
    const char *type = json_string_value(json_object_get(module, "type"));
    const char *dot = type == NULL ? NULL : strrchr(type, '.');
    return type == NULL ? "" : dot == NULL ? type : dot + 1;
}

grail_status sentence_pooling_read(const char *directory, sentence_pooling *out)
{
    grail_status status = GRAIL_OK;
    char *list = NULL;
    json_t *modules = NULL;
    const char *folder = "1_Pooling";
    /* Others change the angles between vectors, or are not known. */
    static const char *const harmless[] = {"Transformer", "Pooling", "Normalize", "Dropout"};
    *out = (sentence_pooling){0};
    TRY(sentence_modules_read(directory, &list, &modules));
    for (size_t i = 0; i < json_array_size(modules); i++) {
        const json_t *module = json_array_get(modules, i);
        const char *own = NULL;
        TRY(sentence_module_folder(list, module, &own));
        folder = own != NULL && strcmp(kind_of(module), "Pooling") == 0 ? own : folder;
    }
    TRY(read_pooling(directory, folder, out));
    for (size_t i = 0; i < json_array_size(modules) && out->notice[0] == 0; i++) {
        const json_t *module = json_array_get(modules, i);
        bool changes = true;
        for (size_t k = 0; k < sizeof harmless / sizeof harmless[0]; k++) {
            changes = changes && strcmp(kind_of(module), harmless[k]) != 0;
        }
        if (changes) {
            snprintf(out->notice, sizeof out->notice,
                     "%.120s lists a module of type '%.60s', which is not applied to the vectors",
                     list, kind_of(module));
        }
    }
out:
    json_decref(modules);
    memory_free(list);
    return status;
}
