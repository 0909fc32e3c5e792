#include "arch/architecture.h"

#include <grail/model.h>

#include <string.h>

static const architecture *const architectures[] = {
    &architecture_llama,
    &architecture_mistral,
    &architecture_qwen2,
    &architecture_qwen3,
};

enum { ARCHITECTURE_COUNT = sizeof architectures / sizeof architectures[0] };

const char *grail_architecture_at(int i)
{
    return i >= 0 && i < ARCHITECTURE_COUNT ? architectures[i]->name : NULL;
}

grail_status architecture_find(const char *source, const json_t *config, const architecture **out)
{
    const char *name = NULL;
    grail_status status = json_get_string(source, config, "model_type", NULL, &name);
    if (status != GRAIL_OK) {
        return status;
    }
    for (int i = 0; name != NULL && i < ARCHITECTURE_COUNT; i++) {
        if (strcmp(architectures[i]->name, name) == 0) {
            *out = architectures[i];
            return GRAIL_OK;
        }
    }
    status = error_set(GRAIL_ERROR_UNSUPPORTED, "%s: model_type \"%s\" is not known; known are",
                       source, name == NULL ? "(missing)" : name);
    for (int i = 0; i < ARCHITECTURE_COUNT; i++) {
        error_append("%s %s", i == 0 ? "" : ",", architectures[i]->name);
    }
    return status;
}
