#include "arch/timm_config.h"

bool timm_config_is(const json_t *config)
{
    return json_is_string(json_object_get(config, "architecture"));
}

grail_status timm_config_set_argument(json_t *config, const char *name, json_t *value)
{
    json_t *arguments = json_object_get(config, "model_args");
    if (!json_is_object(arguments)) {
        arguments = json_object();
        const grail_status status = json_put(config, "model_args", arguments);
        if (status != GRAIL_OK) {
            json_decref(value);
            return status;
        }
    }
    return json_put(arguments, name, value);
}
