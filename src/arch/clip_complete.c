/* The activation of open_clip's networks, in this order: what the tensors show of OpenAI's own
 * files, "quick_gelu" of open_clip_config.json, the names of the files, an assumption. Source:
 * open_clip 3.3, factory.py, pretrained.py and the names of its model configurations. */
#include "arch/activation_names.h"
#include "arch/model_config.h"
#include "arch/tower_complete.h"

#include <ctype.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

/* Whether `word` is in `name`, as a word of its own if `whole`. Case does not matter. */
static bool has_word(const char *name, const char *word, bool whole)
{
    const size_t length = strlen(word);
    for (const char *at = name; *at != 0; at++) {
        const bool begins = at == name || !isalnum((unsigned char)at[-1]);
        if (strncasecmp(at, word, length) == 0 &&
            (!whole || (begins && !isalnum((unsigned char)at[length])))) {
            return true;
        }
    }
    return false;
}

static bool is_quick_name(const char *name)
{
    return has_word(name, "quickgelu", false) || has_word(name, "openai", true);
}

/* Whether the name of the weights file, or of what was opened, is that of such a network. */
static grail_status names_quick_gelu(const surroundings *around, bool *out)
{
    char *path = NULL;
    CHECK(memory_copy_string(&path, around->path));
    size_t length = strlen(path);
    while (length > 1 && path[length - 1] == '/') {
        path[--length] = 0;
    }
    const char *slash = strrchr(path, '/');
    *out = is_quick_name(slash == NULL ? path : slash + 1) ||
           is_quick_name(checkpoint_file_name(around->weights, 0));
    memory_free(path);
    return GRAIL_OK;
}

/* Whether the arguments are those of the class CLIP itself, not of one of open_clip's other
 * classes, which have more. */
static bool is_for_clip(const json_t *model)
{
    static const char *const known[] = {"embed_dim", "vision_cfg", "text_cfg", "quick_gelu"};
    size_t count = 0;
    for (size_t i = 0; i < sizeof known / sizeof known[0]; i++) {
        count += json_object_get(model, known[i]) != NULL ? 1 : 0;
    }
    const json_t *vision = json_object_get(model, "vision_cfg");
    const json_t *text = json_object_get(model, "text_cfg");
    return json_object_size(model) == count && json_is_object(vision) && json_is_object(text) &&
           json_object_get(vision, "timm_model_name") == NULL &&
           json_object_get(text, "hf_model_name") == NULL;
}

/* *found is false without a "model_cfg"; a "quick_gelu" that it lacks is false for open_clip. */
static grail_status read_model_arguments(const surroundings *around, json_t *config, bool *found,
                                         bool *out)
{
    grail_status status = GRAIL_OK;
    model_config file = {0};
    TRY(model_config_read_beside(around->weights, around->directory, OPEN_CLIP_CONFIG_NAME, &file));
    const json_t *model = json_object_get(file.document, "model_cfg");
    *found = json_is_object(model);
    if (*found) {
        TRY(json_get_boolean(file.path, model, "quick_gelu", false, out));
    }
    if (is_for_clip(model)) {
        TRY(json_put(config, TOWER_OPEN_CLIP_ARGUMENTS, json_true()));
    }
out:
    model_config_fini(&file);
    return status;
}

static void note(char *notice, bool named)
{
    snprintf(notice, NOTICE_SIZE,
             named
                 ? "the tensors of open_clip do not show whether the activation is gelu or "
                   "quick_gelu; quick_gelu was taken from the name; the setting activation=gelu or "
                   "activation=quick_gelu decides"
                 : "the tensors of open_clip do not show whether the activation is gelu or "
                   "quick_gelu; gelu is assumed, but networks whose name ends in -quickgelu and "
                   "weights of the tags openai, metaclip and dfn have quick_gelu; the "
                   "setting activation=gelu or activation=quick_gelu decides");
}

grail_status clip_complete(const surroundings *around, json_t *config, char *notice)
{
    const char *names = json_string_value(json_object_get(config, "names"));
    const char *shown = json_string_value(json_object_get(config, "activation"));
    bool found = false;
    bool quick = false;
    if (names == NULL || strcmp(names, "open_clip") != 0) {
        return GRAIL_OK;
    }
    CHECK(read_model_arguments(around, config, &found, &quick));
    if (!found && shown != NULL && strcmp(shown, "quick_gelu") == 0) {
        return GRAIL_OK;
    }
    if (!found) {
        CHECK(names_quick_gelu(around, &quick));
        note(notice, quick);
    }
    return json_put(config, "activation",
                    json_text(activation_name(quick ? ACTIVATION_QUICK_GELU : ACTIVATION_GELU)));
}
