#include "pipeline/output/companions.h"

#include "arch/model_config.h"
#include "base/file.h"

#include <dirent.h>
#include <string.h>

/* Small files beside the weights; weights in other formats stay behind, they are not narrow. */
static bool is_companion(const char *name)
{
    static const char *const suffixes[] = {".json", ".model", ".txt", ".jinja", ".tiktoken"};
    static const char *const others[] = {MODEL_CONFIG_NAME, MODEL_GRAIL_NAME, "plan.json",
                                         "report.json"};
    if (name[0] == '.' || strstr(name, ".index.json") != NULL) {
        return false;
    }
    for (size_t i = 0; i < sizeof others / sizeof others[0]; i++) {
        if (strcmp(name, others[i]) == 0) {
            return false;
        }
    }
    const char *dot = strrchr(name, '.');
    for (size_t i = 0; dot != NULL && i < sizeof suffixes / sizeof suffixes[0]; i++) {
        if (strcmp(dot, suffixes[i]) == 0) {
            return true;
        }
    }
    return false;
}

static grail_status copy_companion(const char *from, const char *to, const char *name)
{
    grail_status status = GRAIL_OK;
    char *source = NULL;
    char *copy = NULL;
    TRY(path_join(&source, from, name));
    TRY(path_join(&copy, to, name));
    TRY(file_copy(source, copy));
out:
    memory_free(source);
    memory_free(copy);
    return status;
}

static grail_status copy_companions(const char *from, const char *to)
{
    grail_status status = GRAIL_OK;
    DIR *directory = opendir(from);
    if (directory == NULL) {
        return error_from_errno("cannot list", from);
    }
    const struct dirent *entry = NULL;
    while ((entry = readdir(directory)) != NULL) {
        if (is_companion(entry->d_name)) {
            TRY(copy_companion(from, to, entry->d_name));
        }
    }
out:
    closedir(directory);
    return status;
}

grail_status companion_write_json(const char *directory, const char *name, const json_t *value)
{
    char *path = NULL;
    grail_status status = path_join(&path, directory, name);
    if (status == GRAIL_OK) {
        status = json_write_file(path, value);
    }
    memory_free(path);
    return status;
}

grail_status companions_write(const compression_request *request, const char *directory)
{
    grail_status status = GRAIL_OK;
    json_t *document = NULL;
    const char *config = request->model->config_name;
    const bool own_config = config != NULL && strcmp(config, MODEL_CONFIG_NAME) == 0;
    if (own_config) {
        TRY(copy_companions(checkpoint_directory(request->model->checkpoint), directory));
    }
    TRY(plan_to_json(&request->plan, &request->sites->list, &document));
    TRY(companion_write_json(directory, "plan.json", document));
    TRY(companion_write_json(directory, own_config ? MODEL_CONFIG_NAME : MODEL_GRAIL_NAME,
                             request->narrowed.config));
out:
    json_decref(document);
    return status;
}
