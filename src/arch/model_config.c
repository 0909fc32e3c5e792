#include "arch/model_config.h"

#include "base/file.h"
#include "base/name_list.h"
#include "format/weights/beside.h"
#include "format/weights/checkpoint_locate.h"

#include <string.h>

enum { CONFIG_MAXIMUM = 16 << 20 };

void model_config_fini(model_config *config)
{
    json_decref(config->document);
    memory_free(config->path);
    *config = (model_config){0};
}

/* The document of a model in memory, or (NULL) the file of a directory. *out stays empty if there
 * is none. */
static grail_status read_named(const checkpoint *memory, const char *directory, const char *name,
                               model_config *out)
{
    grail_status status = GRAIL_OK;
    model_config found = {.name = name};
    if (memory != NULL) {
        TRY(beside_read_json(memory, name, CONFIG_MAXIMUM, &found.path, &found.document));
    } else {
        TRY(path_join(&found.path, directory, name));
        TRY(file_exists(found.path) ? json_read_file(found.path, CONFIG_MAXIMUM, &found.document)
                                    : GRAIL_OK);
    }
    if (found.document == NULL) {
        goto out;
    }
    if (!json_is_object(found.document)) {
        FAIL(GRAIL_ERROR_FORMAT, "%s: not a JSON object", found.path);
    }
    *out = found;
    found = (model_config){0};
out:
    model_config_fini(&found);
    return status;
}

static grail_status read_of_file(const char *directory, const char *file, model_config *out)
{
    grail_status status = GRAIL_OK;
    model_config found = {0};
    bool located = false;
    TRY(checkpoint_is_located(directory, file, &located));
    if (located && checkpoint_is_usual_name(file)) {
        TRY(read_named(NULL, directory, MODEL_CONFIG_NAME, &found));
        if (!json_is_string(json_object_get(found.document, "model_type")) &&
            !json_is_string(json_object_get(found.document, "architecture"))) { /* of timm */
            model_config_fini(&found);
        }
    }
    if (located && found.document == NULL) {
        TRY(read_named(NULL, directory, MODEL_GRAIL_NAME, &found));
    }
    *out = found;
    found = (model_config){0};
out:
    model_config_fini(&found);
    return status;
}

grail_status model_config_read_beside(const checkpoint *weights, const char *directory,
                                      const char *name, model_config *out)
{
    *out = (model_config){0};
    if (checkpoint_documents(weights) != NULL) {
        return read_named(weights, NULL, name, out);
    }
    return directory == NULL ? GRAIL_OK : read_named(NULL, directory, name, out);
}

/* *directory is owned; *file lies in it. */
static grail_status split_path(const char *path, char **directory, const char **file)
{
    const char *slash = strrchr(path, '/');
    *file = slash == NULL ? path : slash + 1;
    return slash == NULL ? memory_copy_string(directory, ".")
                         : memory_format(directory, "%.*s", (int)(slash - path + 1), path);
}

grail_status model_config_directory(const char *path, char **out)
{
    grail_status status = GRAIL_OK;
    char *directory = NULL;
    const char *file = NULL;
    bool located = false;
    *out = NULL;
    if (file_is_directory(path)) {
        return memory_copy_string(out, path);
    }
    TRY(split_path(path, &directory, &file));
    TRY(checkpoint_is_located(directory, file, &located));
    if (located || name_begins_with(file, "open_clip_model.") ||
        name_begins_with(file, "open_clip_pytorch_model.")) {
        *out = directory;
        directory = NULL;
    }
out:
    memory_free(directory);
    return status;
}

grail_status model_config_read(const checkpoint *memory, const char *path, model_config *out)
{
    grail_status status = GRAIL_OK;
    char *directory = NULL;
    const char *file = NULL;
    bool is_gguf = false;
    bool is_onnx = false; /* a config.json beside it is of the network it was exported from */
    *out = (model_config){0};
    TRY(memory != NULL ? GRAIL_OK : checkpoint_is_gguf(path, &is_gguf));
    TRY(memory != NULL ? GRAIL_OK : checkpoint_is_onnx(path, &is_onnx));
    if (is_gguf) {
        goto out;
    }
    if (memory != NULL || file_is_directory(path)) {
        TRY(is_onnx ? GRAIL_OK : read_named(memory, path, MODEL_CONFIG_NAME, out));
        TRY(out->document != NULL ? GRAIL_OK : read_named(memory, path, MODEL_GRAIL_NAME, out));
    } else {
        TRY(split_path(path, &directory, &file));
        TRY(read_of_file(directory, file, out));
    }
out:
    memory_free(directory);
    return status;
}

bool model_config_is_beside(const char *name)
{
    static const char *const endings[] = {".json", ".model", ".txt", ".jinja", ".tiktoken"};
    bool found = false;
    for (size_t i = 0; i < sizeof endings / sizeof endings[0]; i++) {
        found = found || name_is_of_kind(name, endings[i]);
    }
    return found;
}
