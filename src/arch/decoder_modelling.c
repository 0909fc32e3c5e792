#include "arch/decoder_modelling.h"

#include <stdio.h>
#include <string.h>

/* Made of modeling_grail.py; whoever uses it replaces FAMILY and MODULE in it. */
extern const unsigned char modeling_grail_py[];
extern const unsigned long modeling_grail_py_size;

#define MODULE_NAME "modeling_grail"
static const char auto_map[] = "auto_map";

/* What each key of "auto_map" stands for: MODULE_NAME.Grail + the family's classes + ending. */
static const struct {
    const char *key, *ending;
} classes[] = {
    {"AutoConfig", "Config"}, {"AutoModel", "Model"}, {"AutoModelForCausalLM", "ForCausalLM"}};

enum { CLASSES = sizeof classes / sizeof classes[0] };

static bool is_ours(const json_t *map, const char *key)
{
    static const char begin[] = MODULE_NAME ".";
    const char *value = json_string_value(json_object_get(map, key));
    return value != NULL && strncmp(value, begin, sizeof begin - 1) == 0;
}

grail_status decoder_class_put(const char *prefix, const char *classes_of, json_t *config)
{
    char name[96];
    json_t *list = json_array();
    CHECK(json_put(config, "architectures", list));
    snprintf(name, sizeof name, "%s%sForCausalLM", prefix, classes_of);
    return json_push(list, json_text(name));
}

grail_status decoder_modelling_name(const decoder_family *family, json_t *config)
{
    if (family->classes == NULL) {
        return GRAIL_OK;
    }
    json_t *map = json_object_get(config, auto_map);
    if (!json_is_object(map)) {
        map = json_object();
        CHECK(json_put(config, auto_map, map));
    }
    for (int i = 0; i < CLASSES; i++) {
        char name[96];
        snprintf(name, sizeof name, MODULE_NAME ".Grail%s%s", family->classes, classes[i].ending);
        CHECK(json_put(map, classes[i].key, json_text(name)));
    }
    return decoder_class_put("Grail", family->classes, config);
}

grail_status decoder_modelling_forget(const decoder_family *family, json_t *config)
{
    json_t *map = json_object_get(config, auto_map);
    if (family->classes == NULL || !is_ours(map, classes[0].key)) {
        return GRAIL_OK;
    }
    for (int i = 0; i < CLASSES; i++) {
        json_object_del(map, classes[i].key);
    }
    if (json_object_size(map) == 0) {
        json_object_del(config, auto_map);
    }
    return decoder_class_put("", family->classes, config);
}

/* Appends a text in which FAMILY is `classes_of` and MODULE `module`. */
static grail_status append_filled(const char *text, size_t size, const char *classes_of,
                                  const char *module, buffer *out)
{
    static const char family_word[] = "FAMILY";
    static const char module_word[] = "MODULE";
    size_t begin = 0;
    for (size_t i = 0; i < size; i++) {
        const bool is_family = size - i >= sizeof family_word - 1 &&
                               memcmp(text + i, family_word, sizeof family_word - 1) == 0;
        const bool is_module = size - i >= sizeof module_word - 1 &&
                               memcmp(text + i, module_word, sizeof module_word - 1) == 0;
        if (is_family || is_module) {
            CHECK(buffer_append(out, text + begin, i - begin));
            CHECK(buffer_append_string(out, is_family ? classes_of : module));
            begin = i + sizeof family_word - 1; /* both words are as long */
        }
    }
    return buffer_append(out, text + begin, size - begin);
}

grail_status decoder_loader_file(const architecture *self, const json_t *config,
                                 const graph *narrowed, const char **name, buffer *content)
{
    (void)narrowed;
    const char *classes_of = self->family->classes;
    if (classes_of == NULL || !is_ours(json_object_get(config, auto_map), classes[0].key)) {
        return GRAIL_OK;
    }
    *name = MODULE_NAME ".py";
    return append_filled((const char *)modeling_grail_py, modeling_grail_py_size, classes_of,
                         self->name, content);
}
