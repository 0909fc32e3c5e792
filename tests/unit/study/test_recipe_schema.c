/* recipe.schema.json and the parser know the same keys and names. */
#include "recipes.h"

#include "study/results/variant.h"

#include <grail/compress.h>

#include <string.h>

static json_t *schema;

static int open_schema(void **state)
{
    (void)state;
    schema = json_load_file(GRAIL_SOURCE_DIR "/src/study/recipe/recipe.schema.json",
                            JSON_REJECT_DUPLICATES, NULL);
    return schema == NULL ? -1 : 0;
}

static int close_schema(void **state)
{
    (void)state;
    json_decref(schema);
    return 0;
}

static const json_t *definition(const char *name)
{
    return json_object_get(json_object_get(schema, "$defs"), name);
}

/* The keys of two lists, of descriptions and of names; any may be NULL. */
typedef struct key_lists {
    grail_option_at at;
    const char *const *own;
} key_lists;

static const char *key_of(key_lists lists, int i)
{
    for (int n = 0; lists.own[n] != NULL; n++) {
        if (i-- == 0) {
            return lists.own[n];
        }
    }
    for (int f = 0; lists.at != NULL && lists.at(f) != NULL; f++) {
        if (lists.at(f)->key != NULL && i-- == 0) {
            return lists.at(f)->key;
        }
    }
    return NULL;
}

/* Both name the same keys, and no others are allowed. */
static void assert_keys(const json_t *object, key_lists lists)
{
    int count = 0;
    const json_t *properties = json_object_get(object, "properties");
    for (; key_of(lists, count) != NULL; count++) {
        if (json_object_get(properties, key_of(lists, count)) == NULL) {
            fail_msg("the schema lacks \"%s\"", key_of(lists, count));
        }
    }
    assert_int_equal(json_object_size(properties), count);
    assert_true(json_is_false(json_object_get(object, "additionalProperties")));
}

static void the_keys_are_those_of_the_parser(void **state)
{
    (void)state;
    assert_keys(schema, (key_lists){sweep_choice_key_at, sweep_recipe_keys});
    assert_keys(definition("grid"), (key_lists){sweep_choice_key_at, sweep_grid_keys});
    assert_keys(definition("checkpoint"), (key_lists){NULL, sweep_checkpoint_keys});
    assert_keys(definition("images"), (key_lists){grail_image_option_at, sweep_images_keys});
    assert_keys(definition("text"), (key_lists){grail_text_option_at, sweep_text_keys});
}

/* What the schema says of a choice: its words, and a type that fits. */
static void every_choice_has_its_words(void **state)
{
    (void)state;
    for (int i = 0; sweep_choice_key_at(i) != NULL; i++) {
        const grail_option *o = sweep_choice_key_at(i);
        const json_t *rule = definition(o->key);
        const json_t *words = json_object_get(rule, "enum");
        int count = 0;
        if (rule == NULL) {
            fail_msg("the schema does not define \"%s\"", o->key);
        }
        if (o->type != GRAIL_OPTION_WORD && o->type != GRAIL_OPTION_CHOICE) {
            continue;
        }
        for (; o->words[count] != NULL; count++) {
            const char *word = json_string_value(json_array_get(words, (size_t)count));
            assert_non_null(word);
            assert_string_equal(word, o->words[count]);
        }
        assert_int_equal(json_array_size(words), count);
    }
}

typedef const char *(*name_at)(int i);

static const char *variant_at(int i)
{
    return i < VARIANT_FORMS ? variant_form_name((variant)i) : NULL;
}

static const char *heal_at(int i)
{
    return i < HEAL_KINDS ? heal_kind_name((heal_kind)i) : NULL;
}

static void assert_names(const char *name, name_at at)
{
    const json_t *list = json_object_get(definition(name), "enum");
    size_t i = 0;
    for (; at((int)i) != NULL; i++) {
        const char *word = json_string_value(json_array_get(list, i));
        assert_non_null(word);
        assert_string_equal(word, at((int)i));
    }
    assert_int_equal(json_array_size(list), i);
}

static void the_names_are_those_of_the_library(void **state)
{
    (void)state;
    assert_names("selector", grail_selector_at);
    assert_names("site", grail_site_kind_at);
    assert_names("preset", grail_image_preset_at);
    assert_names("compensate", variant_at);
    assert_names("heal", heal_at);
}

/* Every word that the schema allows for this key is read. */
static void assert_words_are_read(const json_t *rule, const char *key)
{
    size_t i = 0;
    const json_t *word = NULL;
    assert_true(json_array_size(json_object_get(rule, "enum")) > 0);
    json_array_foreach (json_object_get(rule, "enum"), i, word) {
        char text[500];
        snprintf(text, sizeof text, RECIPE(ONE, LISTS, ", \"%s\": \"%s\""), key,
                 json_string_value(word));
        sweep_recipe r = recipe_parsed(text);
        sweep_recipe_fini(&r);
    }
}

static void the_words_are_read(void **state)
{
    (void)state;
    const json_t *properties = json_object_get(schema, "properties");
    static const char *const keys[] = {"select", "stream_score", "precision",
                                       "target", "gqa",          "budget"};
    assert_words_are_read(json_object_get(properties, "repeat"), "repeat");
    for (size_t i = 0; i < sizeof keys / sizeof keys[0]; i++) {
        assert_words_are_read(definition(keys[i]), keys[i]);
    }
    assert_words_are_read(definition("loop"), "loop");
}

static void a_recipe_may_name_its_schema(void **state)
{
    (void)state;
    sweep_recipe r = recipe_parsed(RECIPE(ONE, LISTS, ", \"$schema\": \"recipe.schema.json\""));
    sweep_recipe_fini(&r);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_keys_are_those_of_the_parser),
        cmocka_unit_test(every_choice_has_its_words),
        cmocka_unit_test(the_names_are_those_of_the_library),
        cmocka_unit_test(the_words_are_read),
        cmocka_unit_test(a_recipe_may_name_its_schema),
    };
    return cmocka_run_group_tests(tests, open_schema, close_schema);
}
